// Reads the page's data block: lists of whole ticks become times in seconds.

/** Running starts and finishes from gaps and lengths, in seconds. */
function spans(columns, tick) {
  const n = columns.gap.length,
    start = new Float64Array(n),
    finish = new Float64Array(n);
  let cursor = 0;
  for (let i = 0; i < n; ++i) {
    cursor += columns.gap[i];
    start[i] = cursor * tick;
    cursor += columns.length[i];
    finish[i] = cursor * tick;
  }
  return { start, finish, count: n };
}

/** A list that was written as runs of differences (html_parts.h). */
function column(packed) {
  if (Array.isArray(packed)) return packed;
  const { lag, runs } = packed,
    out = [];
  for (let r = 0; r < runs.length; r += 2)
    for (let n = runs[r]; n > 0; --n)
      out.push(runs[r + 1] + (lag && out.length >= lag ? out[out.length - lag] : 0));
  return out;
}
const columns = (packed) =>
  Object.fromEntries(Object.entries(packed).map(([name, list]) => [name, column(list)]));

function runningSums(list) {
  let sum = 0;
  return list.map((value) => (sum += value));
}

function readTimeline(raw) {
  const tick = raw.tick_seconds;
  let first = 0;
  const devices = raw.devices.map((d) => {
    const lists = columns(d.blocks),
      idle = columns(d.waits),
      blocks = { ...lists, ...spans(lists, tick), first };
    first += blocks.count;
    // Merged actions overlap: each is drawn half as high.
    blocks.lane = new Int8Array(blocks.count);
    for (let i = 1; i < blocks.count; ++i)
      if (blocks.start[i] < blocks.finish[i - 1] - tick) {
        blocks.lane[i - 1] = blocks.kind[i - 1] === 0 ? 1 : 2;
        blocks.lane[i] = blocks.kind[i] === 0 ? 1 : 2;
      }
    blocks.critical = new Uint8Array(blocks.count);
    return {
      ...d,
      begin: d.begin * tick,
      end: d.end * tick,
      blocks,
      waits: { ...idle, ...spans(idle, tick) },
    };
  });
  const timeline = { ...raw, finish: raw.finish * tick, devices, blockCount: first };
  timeline.path = raw.path.block.map((block, i) => ({
    block: block - 1,
    device: raw.path.device[i],
    start: raw.path.start[i] * tick,
    finish: raw.path.finish[i] * tick,
  }));
  for (const stay of timeline.path) {
    const at = stay.block < 0 ? null : blockAt(timeline, stay.block);
    if (at) at.device.blocks.critical[at.index] = 1;
  }
  timeline.microbatches =
    1 + devices.reduce((most, d) => d.blocks.microbatch.reduce((m, v) => Math.max(m, v), most), -1);
  timeline.chunks =
    1 + devices.reduce((most, d) => d.blocks.chunk.reduce((m, v) => Math.max(m, v), most), 0);
  return timeline;
}

/** The device and place of the page's n-th block. */
export function blockAt(timeline, number) {
  const device = timeline.devices.find(
    (d) => number >= d.blocks.first && number < d.blocks.first + d.blocks.count,
  );
  return device ? { device, index: number - device.blocks.first } : null;
}

function readDetail(raw) {
  if (!raw) return null;
  const tick = raw.tick_seconds;
  const windows = raw.windows.map((w) => {
    let first = 0;
    const streams = w.streams.map((s) => {
      const out = { ...s, ...spans(s, tick), first };
      first += out.count;
      out.critical = new Set(s.path);
      return out;
    });
    const idle = w.idle.map((i) => ({ ...i, ...spans(i, tick) }));
    return { low: w.low * tick, high: w.high * tick, streams, idle };
  });
  return { ...raw, windows };
}

function readActivity(raw) {
  if (!raw) return [];
  const value = new Map([...raw.digits].map((c, i) => [c, i / 63]));
  return raw.rows.map((r) => {
    const n = r.parts.length / 2,
      all = new Float64Array(n),
      hidden = new Float64Array(n);
    for (let i = 0; i < n; ++i) {
      all[i] = value.get(r.parts[2 * i]);
      hidden[i] = value.get(r.parts[2 * i + 1]);
    }
    return { device: r.device, stream: r.stream, class: r.class, all, hidden };
  });
}

function readMemory(raw, tick) {
  if (!raw) return null;
  const unit = raw.unit_bytes;
  const rows = raw.rows.map((r) => {
    const time = runningSums(r.gap).map((t) => t * tick);
    const activations = runningSums(r.activations).map((v) => v * unit),
      logits = runningSums(r.logits).map((v) => v * unit);
    let peak = 0;
    for (let i = 1; i < time.length; ++i)
      if (activations[i] + logits[i] > activations[peak] + logits[peak]) peak = i;
    return { ...r, time, activations, logits, peak };
  });
  return { ...raw, rows };
}

export function readPage(raw) {
  const timeline = readTimeline(raw.timeline);
  return {
    title: raw.title,
    report: raw.report,
    timeline,
    detail: readDetail(raw.detail),
    activity: readActivity(raw.activity),
    memory: readMemory(raw.memory, raw.timeline.tick_seconds),
    placement: raw.placement,
  };
}

/** First index whose value is above `limit`; `list` ascends. */
export function firstAbove(list, limit) {
  let low = 0,
    high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The order in which a device runs its blocks, as schedules are written: ["F0", "F1", "B0", ...]. */
export function blockOrder(timeline, device, letters) {
  const { blocks } = device;
  const order = [];
  for (let i = 0; i < blocks.count; ++i) {
    const kind = timeline.kinds[blocks.kind[i]];
    if (kind === "step") continue;
    order.push(
      letters[kind] + blocks.microbatch[i] + (timeline.chunks > 1 ? "." + blocks.chunk[i] : ""),
    );
  }
  return order;
}
