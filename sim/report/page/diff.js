// The page of two steps: what changed, what it costs, through what, and both timelines one above the other.
import { checkbox, element, folded, legend, section, table } from "./element.js";
import { blockOrder, readPage } from "./data.js";
import { causeWords, gib, kindLetters, percent, seconds } from "./words.js";
import { plural, signedPercent, signedSeconds } from "./words.js";
import { figureGrid, fileName, fillPage, followTheme, lead, pageHead } from "./frame.js";
import { pageJson, sayingLine, wide } from "./frame.js";
import { PipelineChart } from "./pipeline.js";
import { TimeView } from "./view.js";
import { layoutWords } from "./headline.js";
import { colourChoice } from "./step_sections.js";
import { causeSeconds, waterfall } from "./waterfall.js";

const raw = pageJson(),
  { diff, words } = raw,
  { a, b } = diff;
const stepA = a.step_time_seconds,
  stepB = b.step_time_seconds,
  longer = stepB > stepA;
const files = [words.a, words.b],
  same = words.a === words.b;

function head() {
  const names = same ? ["A", "B"] : files.map(fileName);
  const change =
    diff.delta_seconds === 0
      ? "equally long"
      : `${seconds(Math.abs(diff.delta_seconds))} ${longer ? "longer" : "shorter"}`;
  return pageHead({
    heading: `B against A: the step is ${change}`,
    tab: `${names.join(" to ")}: ${signedPercent(diff.relative)}`,
    subtitles: [
      `A  ${files[0]}; ${layoutWords(a, raw.sides[0].title)}`,
      `B  ${same ? `the same with ${plural(diff.requested.length, "key")} changed` : files[1]}; ${layoutWords(b, raw.sides[1].title)}`,
    ],
    version: diff.version,
    brand: "two training steps, compared",
  });
}

function headFigures() {
  const pair = (id, label, from, to, say, note) =>
    from === null || from === undefined || to === null || to === undefined
      ? null
      : [id, label, say(to), [`A ${say(from)}`, note], ""];
  const memory = ({ memory: m }) => m && m.peak_bytes + m.reserve_bytes;
  return figureGrid([
    [
      "delta",
      "step time, B against A",
      signedSeconds(diff.delta_seconds),
      `${signedPercent(diff.relative, 2)} of A's step`,
      diff.delta_seconds === 0 ? "main" : longer ? "main bad" : "main good",
    ],
    pair("step", "step time of B", stepA, stepB, seconds),
    pair(
      "tokens",
      "throughput",
      a.tokens_per_second_per_gpu,
      b.tokens_per_second_per_gpu,
      (v) => v.toFixed(1),
      "tokens/s/GPU",
    ),
    pair("mfu", "MFU", a.mfu, b.mfu, percent),
    pair("bubble", "pipeline bubble", a.bubble_fraction, b.bubble_fraction, percent),
    pair(
      "memory",
      b.memory && !b.memory.fits ? "B does not fit" : "memory with reserve",
      memory(a),
      memory(b),
      gib,
      b.memory ? `of ${gib(b.memory.capacity_bytes)}` : null,
    ),
  ]);
}

/** What somebody ought to see before the figures. */
function warnings() {
  const items = [
    ...raw.missed.map((text) => ["error", "Limit", text]),
    ...diff.gates.map((g) => [
      g.in_effect ? "advice" : "silent",
      g.in_effect ? "In effect" : "Undone",
      [
        element("code", {}, g.key),
        `${g.requested === "null" ? " not written" : ` asked for ${g.requested}`}, now ${g.effective}`,
        g.because_of ? [", because of ", element("code", {}, g.because_of)] : "",
        g.delta_seconds === null ? "" : `: ${signedSeconds(g.delta_seconds)} of the step`,
      ].flat(),
      g.reason,
    ]),
    ...diff.undone.map((u) => [
      "unit",
      "No effect",
      ["the change of ", element("code", {}, u.key), " does not come into effect"],
      u.reason,
    ]),
  ];
  if (!items.length) return null;
  return section(
    "gates",
    "Gates",
    null,
    lead("Settings that one side asks for and a rule undoes, and limits that were missed."),
    element(
      "ul",
      { class: "findings" },
      items.map(([kind, tag, text, why]) =>
        element(
          "li",
          { class: kind },
          element("span", { class: "tag" }, tag),
          element("div", {}, text, why ? element("div", { class: "why" }, why) : null),
        ),
      ),
    ),
  );
}

function changeSection() {
  if (!diff.by_change.length) return null;
  const names = words.by_change;
  return section(
    "changes",
    "By change",
    null,
    lead(words.method + "."),
    waterfall(
      "Step time from A to B by change",
      stepA,
      stepB,
      diff.by_change.map((c, i) => [names[i].change, c.delta_seconds]),
    ),
    folded("Table of changes", () =>
      table(
        "Changes and what each is worth",
        [["change"], ["step", true], ["share", true], ["also in effect"]],
        diff.by_change.map((c, i) => [
          names[i].change,
          signedSeconds(c.delta_seconds) +
            (c.standard_error_seconds === null ? "" : ` +- ${seconds(c.standard_error_seconds)}`),
          diff.delta_seconds ? percent(c.delta_seconds / diff.delta_seconds) : "-",
          names[i].also.join(", "),
        ]),
      ),
    ),
    diff.interactions.length
      ? element(
          "p",
          { class: "note" },
          "Together they do more than each alone: " +
            diff.interactions
              .map((p) => `${p.keys.join(" with ")} ${signedSeconds(p.seconds)}`)
              .join(", "),
        )
      : null,
  );
}

function causeSection() {
  const from = causeSeconds(a),
    to = causeSeconds(b);
  const rows = [];
  for (const [cause, delta] of Object.entries(diff.by_cause)) {
    if (!from[cause] && !to[cause]) continue;
    rows.push([causeWords[cause], seconds(from[cause]), seconds(to[cause]), signedSeconds(delta)]);
    for (const [kernel, part] of Object.entries(diff.by_kernel[cause] || {}))
      if (Math.abs(part) > 1e-6 * stepA)
        rows.push([element("span", { class: "part" }, kernel), "", "", signedSeconds(part)]);
  }
  return section(
    "causes",
    "By cause",
    null,
    lead(
      "Where the time of the mean rank goes: what it computes, and what it waits for. The bars add up to the difference.",
    ),
    waterfall(
      "Step time from A to B by cause",
      stepA,
      stepB,
      Object.entries(diff.by_cause)
        .filter(([, s]) => Math.abs(s) > 1e-9 * stepA)
        .map(([cause, s]) => [causeWords[cause], s]),
    ),
    folded("Table of causes", () =>
      table(
        "Causes, mean rank",
        [["cause, mean rank"], ["A", true], ["B", true], ["difference", true]],
        rows,
      ),
    ),
    element(
      "p",
      { class: "note" },
      "On the critical path: " +
        (Object.entries(diff.critical_path)
          .filter(([, s]) => Math.abs(s) > 1e-6 * stepA)
          .sort((x, y) => Math.abs(y[1]) - Math.abs(x[1]))
          .map(([kind, s]) => `${kind} ${signedSeconds(s)}`)
          .join(", ") || "nothing moved"),
    ),
  );
}

const pages = raw.sides.map((side, i) => readPage({ ...side, report: [a, b][i] }));
const view = new TimeView(0, Math.max(...pages.map((p) => p.timeline.finish)));
const lines = [sayingLine(), sayingLine()];
const pipelines = pages.map(
  (p, i) =>
    new PipelineChart(p.timeline, view, {
      select: () => {},
      say: (text) => lines[i].replaceChildren(`${"AB"[i]}: ${text}`),
    }),
);

function timelineSection() {
  const kinds = [
    ["forward", "forward"],
    ["backward", "backward"],
    ["backward_input", "input"],
    ["backward_weight", "weight"],
    ["step", "step"],
  ];
  const shown = (kind) =>
    pages.some(({ timeline: t }) =>
      t.devices.some((d) => d.blocks.kind.includes(t.kinds.indexOf(kind))),
    );
  const paint = () => pipelines.forEach((p) => p.chart.refresh());
  return section(
    "timelines",
    "Both timelines",
    element(
      "div",
      { class: "controls" },
      element("button", { type: "button", onclick: () => view.reset() }, "Whole step"),
      colourChoice("pass", (by) => {
        for (const p of pipelines) p.by = by;
        paint();
      }),
      checkbox("critical path", true, (on) => {
        for (const p of pipelines) p.showPath = on;
        paint();
      }),
    ),
    lead(
      "On one axis of time: what stands below each other happens at the same moment. Point at a block for what it waited for, drag to zoom into both, double-click for the whole step.",
    ),
    pipelines.flatMap((p, i) => [
      element("h3", { class: "side" }, `${"AB"[i]}: ${seconds([stepA, stepB][i])}`),
      p.box,
      lines[i],
    ]),
    legend([
      ...kinds
        .filter(([kind]) => shown(kind))
        .map(([kind, variable]) => [
          {
            backward_input: "backward, input half",
            backward_weight: "weight half",
            step: "optimizer and copies",
          }[kind] || kind,
          variable,
        ]),
      ["pipeline bubble", "bubble", true],
    ]),
  );
}

function memorySection() {
  if (!a.memory || !b.memory) return null;
  const classes = Object.keys(b.memory.by_class);
  return section(
    "memory",
    "Memory",
    null,
    lead(words.memory ? `Of the fullest rank; ${words.memory}.` : "Of the fullest rank."),
    wide(
      table(
        "Peak memory by class, of the fullest rank",
        [["class"], ["A", true], ["B", true], ["difference", true]],
        [
          ...classes.map((c) => [c, a.memory.by_class[c] || 0, b.memory.by_class[c]]),
          ["peak", a.memory.peak_bytes, b.memory.peak_bytes],
        ].map(([name, from, to]) => [
          name,
          gib(from),
          gib(to),
          (to > from ? "+" : "") + gib(to - from),
        ]),
      ),
    ),
  );
}

function settingsSection() {
  const written = (value) =>
    value === null ? "not written" : element("code", {}, JSON.stringify(value));
  const rows = (list) =>
    list.map((c) => [element("code", {}, c.key), written(c.from), written(c.to)]);
  const columns = [["key"], ["A"], ["B"]];
  return section(
    "settings",
    "Settings",
    null,
    folded(`Written differently (${diff.requested.length})`, () =>
      table("Written differently", columns, rows(diff.requested)),
    ),
    folded(`Different in effect (${diff.effective.length})`, () =>
      table("Different in effect", columns, rows(diff.effective)),
    ),
  );
}

const body = document.getElementById("page");
body.append(head(), headFigures());
fillPage(body, [
  diff.requested.length
    ? null
    : section("nothing", "Nothing differs", null, lead("Both scenarios say the same.")),
  warnings(),
  changeSection(),
  diff.requested.length ? causeSection() : null,
  timelineSection(),
  memorySection(),
  settingsSection(),
]);
followTheme(() => pipelines.forEach((p) => p.chart.paint()));

/** For tests and the console. */
globalThis.stepsim = {
  diff,
  pages,
  view,
  pipelines,
  order: (side, row) =>
    blockOrder(pages[side].timeline, pages[side].timeline.devices[row], kindLetters),
};
