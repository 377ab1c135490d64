// The page of one step: headline, findings, pipeline, streams, ledger, overlap, memory, placement.
import { choice, checkbox, element, folded, legend, section, table } from "./element.js";
import { readPage, blockOrder } from "./data.js";
import { count, kindLetters, plural } from "./words.js";
import { TimeView } from "./view.js";
import { fillPage, followTheme, pageJson, sayingLine, wide } from "./frame.js";
import { rowName } from "./block_words.js";
import { figures, findings, masthead } from "./headline.js";
import { PipelineChart } from "./pipeline.js";
import { StreamsChart } from "./streams.js";
import { atPeak, MemoryChart, memoryClasses, classWords } from "./memory.js";
import { peakBars, peakTable } from "./bars.js";
import { blocksTable, colourChoice, ledgerSection, overlapSection } from "./step_sections.js";
import { pathSection, settingsSection } from "./step_sections.js";
import { PlacementMap } from "./placement.js";

const raw = pageJson();
const { report, title } = raw;
const body = document.getElementById("page");
body.append(masthead(report, title), figures(report, title));
// The headline is on the screen before the charts are worked out; a hidden tab has no frames.
await new Promise((go) => {
  requestAnimationFrame(() => setTimeout(go));
  setTimeout(go, 200);
});
const page = readPage(raw),
  { timeline } = page;
const said = sayingLine();
const say = (text) => said.replaceChildren(text);

const view = new TimeView(0, timeline.finish);
const pipeline = new PipelineChart(timeline, view, { select: (row) => turnTo(row), say });
const streams = new StreamsChart(page, view, { pipeline });
const memory = page.memory ? new MemoryChart(page, view) : null;
const map =
  page.placement && page.placement.world > 1
    ? new PlacementMap(page, (text) => saidPlace.replaceChildren(text))
    : null;
const saidPlace = sayingLine();
const pickers = [];

function turnTo(row) {
  pipeline.selected = row;
  streams.show(row);
  if (memory) memory.show(row);
  for (const p of pickers) p.value = String(row);
  pipeline.chart.refresh();
}
function picker() {
  const made = element(
    "select",
    { "aria-label": "Device", onchange: () => turnTo(Number(made.value)) },
    timeline.devices.map((d, i) =>
      element(
        "option",
        { value: i },
        rowName(d) + (d.represents > 1 ? `, for ${d.represents}` : ""),
      ),
    ),
  );
  pickers.push(made);
  return made;
}

/** Stretches to jump to: the whole step, and where every task is known. */
function stretches() {
  const options = [["whole", "Whole step", "0"]],
    windows = page.detail ? page.detail.windows : [];
  const middle = timeline.devices[Math.floor(timeline.devices.length / 2)],
    { blocks } = middle;
  const around = (from, to) => () => view.set(from, to);
  const jumps = { whole: () => view.reset() };
  if (windows.length > 1)
    ["Start", "Steady state", "End"].forEach((text, i) => {
      options.push([text, text, "every task of this stretch is in the file"]);
      jumps[text] = around(windows[i].low, windows[i].high);
    });
  if (blocks.count > 40) {
    options.push(["few", "A few actions", "single actions around the middle"]);
    const at = Math.floor(blocks.count / 2),
      last = Math.min(blocks.count - 1, at + 24);
    jumps.few = around(blocks.start[at], blocks.finish[last]);
  }
  const set = choice("Stretch of time", options, "whole", (key) => jumps[key]());
  let ours = false;
  for (const key of Object.keys(jumps)) {
    const jump = jumps[key];
    jumps[key] = () => {
      ours = true;
      jump();
      ours = false;
    };
  }
  view.onChange(() => {
    if (!ours) set.press(view.whole ? "whole" : "");
  });
  return options.length > 1 ? set : null;
}

function pipelineSection() {
  const t = timeline,
    has = (kind) => t.devices.some((d) => d.blocks.kind.includes(t.kinds.indexOf(kind)));
  const items = [["forward", "forward"]];
  if (has("backward")) items.push(["backward", "backward"]);
  if (has("backward_input")) items.push(["backward, input half", "input"]);
  if (has("backward_weight")) items.push(["weight half", "weight"]);
  if (has("step")) items.push(["optimizer and copies", "step"]);
  items.push(["pipeline bubble", "bubble", true]);
  const causes = new Set(
    t.devices.flatMap((d) => [...new Set(d.waits.cause)]).map((c) => t.causes[c]),
  );
  for (const c of causes)
    if (c !== "bubble")
      items.push(["waits: " + c.replace("exposed_", "exposed "), c.replace("exposed_", "")]);
  const drawn =
    t.devices.length < t.simulated
      ? ` Of ${count(t.simulated)} simulated devices ${t.devices.length} are drawn, evenly spread.`
      : "";
  const stands = t.devices.some((d) => d.represents > 1)
    ? " A row stands for all ranks that provably behave like it."
    : "";
  const hues = element(
    "p",
    { class: "note", hidden: true },
    "By microbatch: eight hues take turns; a backward is darker than its forward, a weight half darker still and hatched.",
  );
  return section(
    "pipeline",
    "Pipeline",
    element(
      "div",
      { class: "controls" },
      stretches(),
      colourChoice("pass", (by) => {
        pipeline.by = by;
        hues.hidden = by === "pass";
        pipeline.chart.refresh();
        streams.chart.refresh();
      }),
      checkbox("critical path", true, (on) => {
        pipeline.showPath = on;
        pipeline.chart.refresh();
        streams.chart.refresh();
      }),
    ),
    element(
      "p",
      { class: "lead" },
      "Stages down, time across; numbers are microbatches" +
        (t.chunks > 1 ? ", paler for later chunks (virtual stages)" : "") +
        ". Kernels of one action are joined to one block; point at it for what it waited for. The dark line is the critical path. Drag to zoom, double-click for the whole step." +
        stands +
        drawn,
    ),
    pipeline.box,
    legend(items),
    hues,
    said,
    blocksTable(t, pipeline),
  );
}

function streamsSection() {
  const d = page.detail,
    all = d.windows.length === 1;
  return section(
    "streams",
    "Streams of one device",
    element("div", { class: "controls" }, element("label", {}, "device ", picker())),
    element(
      "p",
      { class: "lead" },
      "Strong colour: bytes move while no kernel runs. Pale: hidden under compute. " +
        (all
          ? `Every one of the ${count(d.tasks)} tasks is here.`
          : `Of ${count(d.tasks)} tasks those of three stretches are in the file, marked by dark lines under the chart: the start, a steady state, the end. Elsewhere kernels are joined to blocks and transfers to how busy each class is.`),
    ),
    streams.box,
    legend([
      ["forward", "forward"],
      ["backward", "backward"],
      ["weight gradients", "weight"],
      ["optimizer and copies", "step"],
      ...[...new Set(page.activity.map((a) => timeline.classes[a.class]))].map((c) => [c, c]),
    ]),
    folded("Table of tasks in sight", () => {
      const { total, rows } = streams.rows(500);
      return [
        element(
          "p",
          {},
          total > rows.length
            ? `The first ${rows.length} of ${count(total)} tasks in sight; zoom in for fewer`
            : plural(total, "task"),
        ),
        table(
          "Tasks in sight",
          [["stream"], ["task"], ["starts", true], ["takes", true], ["held up by"]],
          rows,
        ),
      ];
    }),
  );
}

function memorySection() {
  if (!memory) return null;
  const thin = page.memory.thinned
    ? " Where there are too many changes to draw, each point is the highest of its stretch."
    : "";
  return section(
    "memory",
    "Memory",
    element("div", { class: "controls" }, element("label", {}, "device ", picker())),
    element(
      "p",
      { class: "lead" },
      "Live bytes of one device over the step, against its capacity; the hatched part is what framework and communicators reserve." +
        thin,
    ),
    memory.box,
    legend(
      memoryClasses
        .filter(([name]) => page.memory.rows.some((r) => atPeak(r)[name] > 0))
        .map(([name, variable]) => [classWords[name] || name, variable])
        .concat([["reserve", "bubble", true]]),
    ),
    element("h3", { style: { "margin-top": "14px" } }, "At its fullest, by stage"),
    element("div", { class: page.memory.rows.length > 24 ? "many" : "" }, peakBars(page)),
    folded("Table", () => peakTable(page)),
  );
}

function placementSection() {
  if (!map) return null;
  const p = page.placement,
    part =
      p.world > map.shown
        ? ` The first ${count(map.shown)} of ${count(p.world)} ranks are drawn.`
        : "";
  return section(
    "placement",
    "Placement",
    element("div", { class: "controls" }, map.placement.groups.length ? map.controls : null),
    element(
      "p",
      { class: "lead" },
      `Each cell is a rank, each box ${p.nvlink_domain === p.gpus_per_node ? "a node, which is an NVLink domain" : `an NVLink domain of ${p.nvlink_domain}`}; shades tell pipeline stages apart. Point at a rank: its group lights up, red where it straddles domains.${part}`,
    ),
    map.box,
    saidPlace,
    wide(map.table()),
  );
}

const sections = [
  findings(report),
  pipelineSection(),
  streamsSection(),
  ledgerSection(report),
  element("div", { class: "columns" }, overlapSection(report), pathSection(report)),
  memorySection(),
  placementSection(),
  settingsSection(report, title),
];
fillPage(body, sections);
followTheme(() => {
  for (const c of [pipeline, streams, memory, map]) if (c) c.chart.paint();
});

/** For tests and the console. */
globalThis.stepsim = {
  page,
  view,
  pipeline,
  streams,
  memory,
  map,
  turnTo,
  order: (row) => blockOrder(timeline, timeline.devices[row], kindLetters),
};
