// The pinned step against the one that is shown: figures, ledgers and both pipelines on one time axis.
import { element, legend, section, table } from "./element.js";
import { readPage } from "./data.js";
import { causeWords, gib, percent, seconds } from "./words.js";
import { TimeView } from "./view.js";
import { PipelineChart } from "./pipeline.js";
import { bar } from "./bars.js";
import { pipelineLegend } from "./step_view.js";

const signed = (text, value) => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + text;
const points = (d) => signed(Math.abs(d * 100).toFixed(1) + " points", round(d, 3));
const round = (value, places) => Math.round(value * 10 ** places);
/** [name, value of a report, words, words of a difference, +1 where more is better]. */
const comparedFigures = [
  [
    "step time",
    (r) => r.step_time_seconds,
    seconds,
    (d, a) => `${signed(seconds(Math.abs(d)), d)} (${signed(percent(Math.abs(d / a)), d)})`,
    -1,
  ],
  [
    "tokens/s/GPU",
    (r) => r.tokens_per_second_per_gpu,
    (v) => v.toFixed(1),
    (d, a) => `${signed(Math.abs(d).toFixed(1), d)} (${signed(percent(Math.abs(d / a)), d)})`,
    1,
  ],
  ["MFU", (r) => r.mfu, percent, points, 1],
  ["pipeline bubble", (r) => r.bubble_fraction, percent, points, -1],
  ["overlap efficiency", (r) => r.overlap_efficiency.overall, percent, points, 1],
  ["exposed communication", (r) => exposed(r), percent, points, -1],
  [
    "peak memory",
    (r) => r.memory && r.memory.peak_bytes,
    gib,
    (d) => signed(gib(Math.abs(d)), d),
    -1,
  ],
];
const exposed = (r) =>
  Object.entries(r.ledger).reduce(
    (sum, [cause, share]) => sum + (cause.startsWith("exposed_") ? share || 0 : 0),
    0,
  );

function figureRows(before, after) {
  const rows = [];
  for (const [name, of, words, change, better] of comparedFigures) {
    const a = of(before),
      b = of(after);
    if (a === null && b === null) continue;
    const both = a !== null && b !== null,
      moved = both && Math.abs(b - a) > 1e-9 * Math.abs(a);
    const kind = !moved ? "" : (b - a) * better > 0 ? "better" : "worse";
    rows.push([
      name,
      a === null ? "-" : words(a),
      b === null ? "-" : words(b),
      element(
        "span",
        { class: kind },
        moved ? change(b - a, a) : both ? "the same" : "-",
        kind ? " " + kind : "",
      ),
    ]);
  }
  return rows;
}

/** Mean ledgers, each as long as its step. */
function ledgerPair(before, after) {
  const most = Math.max(before.step_time_seconds, after.step_time_seconds);
  const made = element("div", { class: "bars pair" });
  for (const [name, r] of [
    ["pinned", before],
    ["now", after],
  ]) {
    const parts = Object.entries(r.ledger)
      .filter(([, share]) => share > 0)
      .map(([cause, share]) => [
        causeWords[cause],
        (share * r.step_time_seconds) / most,
        `var(--${cause.replace("exposed_", "")})`,
        `${seconds(share * r.step_time_seconds)}, ${percent(share)} of the step`,
        cause === "bubble",
      ]);
    made.append(
      element("span", { class: "name" }, element("b", {}, name)),
      bar(`${name}: mean ledger of ${seconds(r.step_time_seconds)}`, parts),
      element("span", {}, seconds(r.step_time_seconds)),
    );
  }
  return made;
}

export class Comparison {
  constructor(box) {
    this.box = box;
    this.charts = [];
  }
  /** `pinned`: {raw, label} or null; `unpin()`: the reader has seen enough. */
  show(pinned, raw, unpin, restore) {
    this.box.hidden = !pinned;
    this.charts = [];
    if (!pinned) return this.box.replaceChildren();
    const sides = [pinned.raw, raw].map(readPage);
    const view = (this.view = new TimeView(0, Math.max(...sides.map((s) => s.timeline.finish))));
    const drawings = sides.map((side, i) => {
      const chart = new PipelineChart(side.timeline, view, { select() {}, say() {} });
      chart.showPath = false;
      chart.selected = -1;
      this.charts.push(chart);
      return [element("h3", {}, i === 0 ? "pinned" : "now"), chart.box];
    });
    this.box.replaceChildren(
      section(
        "compare",
        "Against the pinned step",
        element(
          "div",
          { class: "controls" },
          element("button", { type: "button", onclick: restore }, "Back to pinned"),
          element("button", { type: "button", onclick: unpin }, "Unpin"),
        ),
        element("p", { class: "lead" }, pinned.label),
        element(
          "div",
          { class: "scroll" },
          table(
            "Figures of both steps",
            [["figure"], ["pinned", true], ["now", true], ["change", true]],
            figureRows(pinned.raw.report, raw.report),
          ),
        ),
        element("h3", { class: "apart" }, "Where the time goes, on one scale"),
        ledgerPair(pinned.raw.report, raw.report),
        element("h3", { class: "apart" }, "Both pipelines on one time axis"),
        drawings.flat(),
        legend(pipelineLegend(sides[1].timeline)),
      ),
    );
  }
  paint() {
    for (const c of this.charts) c.chart.paint();
  }
}
