// What is said of a block of the pipeline, of the wait before it, of a device.
import { blockAt, firstAbove } from "./data.js";
import { causeWords, kindLetters, kindWords, seconds } from "./words.js";

export function rowName(device) {
  return `stage ${device.stage}, rank ${device.rank}`;
}

/** `at` is {device, index} of a block. Descriptions are a heading and lines, as showTip takes them. */
export class BlockWords {
  constructor(timeline) {
    this.timeline = timeline;
  }

  /** The block at the other end of what this one waited for. */
  sourceOf({ device, index }) {
    const number = device.blocks.source[index] - 1;
    return number < 0 ? null : blockAt(this.timeline, number);
  }

  name(device, i) {
    const { blocks } = device,
      kind = this.timeline.kinds[blocks.kind[i]];
    if (kind === "step") return kindWords.step;
    return (
      `${kindWords[kind]}, microbatch ${blocks.microbatch[i]}` +
      (this.timeline.chunks > 1 ? `, chunk ${blocks.chunk[i]}` : "")
    );
  }

  describe(at) {
    const { device, index: i } = at,
      { blocks } = device,
      t = this.timeline;
    const lines = [
      ["where", rowName(device)],
      ["starts", seconds(blocks.start[i])],
      ["takes", seconds(blocks.finish[i] - blocks.start[i])],
    ];
    const idle = blocks.idle[i] * t.tick_seconds;
    if (idle > 0)
      lines.push([
        "of it not computing",
        seconds(idle) +
          (blocks.cause[i] >= 0 ? ", most: " + causeWords[t.causes[blocks.cause[i]]] : ""),
      ]);
    lines.push(this.waitedFor(at));
    if (blocks.critical[i]) lines.push("On the critical path.");
    return [this.name(device, i), lines];
  }
  waitedFor(at) {
    const { device, index: i } = at,
      { blocks } = device,
      t = this.timeline;
    const through =
      blocks.through[i] === t.classes.length
        ? "the host"
        : blocks.through[i] > 0
          ? `a ${t.classes[blocks.through[i]]} transfer`
          : null;
    const source = this.sourceOf(at);
    const waited =
      i === 0 ? blocks.start[i] - device.begin : blocks.start[i] - blocks.finish[i - 1];
    if (waited <= t.tick_seconds / 2) return "Did not wait.";
    const what = source
      ? `${this.name(source.device, source.index)} on ${rowName(source.device)}`
      : null;
    if (!what && !through) return `Waited ${seconds(waited)}.`;
    return `Waited ${seconds(waited)} for ${what || through}${what && through ? ", then " + through : ""}.`;
  }
  describeWait({ device, wait: i, row }) {
    const { waits, blocks } = device,
      cause = this.timeline.causes[waits.cause[i]];
    const next = firstAbove(blocks.start, waits.finish[i] - this.timeline.tick_seconds);
    const lines = [
      ["where", rowName(device)],
      ["from", seconds(waits.start[i])],
      ["lasts", seconds(waits.finish[i] - waits.start[i])],
    ];
    if (next < blocks.count)
      lines.push(["until", this.name(device, next)], this.waitedFor({ device, index: next, row }));
    return [causeWords[cause], lines];
  }

  /** The blocks of a device as rows of a table. */
  rows(device) {
    const { blocks } = device,
      rows = [];
    for (let i = 0; i < blocks.count; ++i)
      rows.push([
        kindLetters[this.timeline.kinds[blocks.kind[i]]],
        this.name(device, i),
        seconds(blocks.start[i]),
        seconds(blocks.finish[i] - blocks.start[i]),
        this.waitedFor({ device, index: i }),
      ]);
    return rows;
  }
}
