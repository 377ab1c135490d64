// The step that is shown: figures and charts of `run --html`, drawn anew whenever something is changed.
import { checkbox, element, folded, legend, section, table } from "./element.js";
import { readPage } from "./data.js";
import { count, plural } from "./words.js";
import { TimeView } from "./view.js";
import { rowName } from "./block_words.js";
import { figures, findings } from "./headline.js";
import { PipelineChart } from "./pipeline.js";
import { StreamsChart } from "./streams.js";
import { atPeak, classWords, MemoryChart, memoryClasses } from "./memory.js";
import { peakBars } from "./bars.js";
import { PlacementMap } from "./placement.js";
import { blocksTable, colourChoice, ledgerSection } from "./step_sections.js";
import { overlapSection, pathSection } from "./step_sections.js";

const note = (text) => element("p", { class: "lead" }, text);

/** Pairs for a legend: the kinds of blocks there are, and the causes of waits. */
export function pipelineLegend(t) {
  const has = (kind) => t.devices.some((d) => d.blocks.kind.includes(t.kinds.indexOf(kind)));
  const kinds = [
    ["forward", "forward", "forward"],
    ["backward", "backward", "backward"],
    ["backward_input", "backward, input half", "input"],
    ["backward_weight", "weight half", "weight"],
    ["step", "optimizer and copies", "step"],
  ];
  const causes = new Set(t.devices.flatMap((d) => [...new Set(d.waits.cause)]));
  return [
    ...kinds.filter(([kind]) => has(kind)).map(([, text, variable]) => [text, variable]),
    ["pipeline bubble", "bubble", true],
    ...[...causes]
      .map((c) => t.causes[c])
      .filter((c) => c !== "bubble")
      .map((c) => ["waits: " + c.replace("exposed_", "exposed "), c.replace("exposed_", "")]),
  ];
}

export class StepView {
  constructor(box) {
    this.box = box;
    this.kept = { by: "pass", path: true, row: 0, group: null, stretch: null, open: new Set() };
    this.charts = [];
  }

  /** What the reader turned stays turned over the next drawing. */
  keep() {
    if (!this.page) return;
    const { view, page, kept } = this;
    kept.stretch = view.whole
      ? null
      : [view.low / page.timeline.finish, view.high / page.timeline.finish];
    kept.open = new Set([...this.box.querySelectorAll("details[open]")].map((d) => d.dataset.name));
    kept.group = this.map ? this.map.kind : kept.group;
  }

  show(raw) {
    this.keep();
    const page = (this.page = readPage(raw)),
      { timeline } = page,
      { kept } = this;
    this.report = raw.report;
    kept.row = Math.min(kept.row, timeline.devices.length - 1);
    const view = (this.view = new TimeView(0, timeline.finish));
    const said = element("div", { class: "said", role: "status", "aria-live": "polite" });
    this.pipeline = new PipelineChart(timeline, view, {
      select: (row) => this.turnTo(row),
      say: (text) => said.replaceChildren(text),
    });
    this.pipeline.by = kept.by;
    this.pipeline.showPath = kept.path;
    this.streams = page.detail ? new StreamsChart(page, view, { pipeline: this.pipeline }) : null;
    this.memory = page.memory ? new MemoryChart(page, view) : null;
    const saidPlace = element("div", { class: "said", role: "status", "aria-live": "polite" });
    this.map =
      page.placement && page.placement.world > 1
        ? new PlacementMap(page, (text) => saidPlace.replaceChildren(text))
        : null;
    this.pickers = [];
    this.charts = [this.pipeline, this.streams, this.memory, this.map].filter(Boolean);
    if (kept.stretch)
      view.set(kept.stretch[0] * timeline.finish, kept.stretch[1] * timeline.finish);
    if (this.map && kept.group && this.map.placement.groups.some((g) => g.kind === kept.group)) {
      this.map.kind = kept.group;
      this.map.controls.press(kept.group);
    }
    this.box.replaceChildren(
      ...[
        figures(raw.report, raw.title),
        findings(raw.report),
        this.pipelineSection(said),
        this.streamsSection(),
        ledgerSection(raw.report),
        element("div", { class: "columns" }, overlapSection(raw.report), pathSection(raw.report)),
        this.memorySection(),
        this.placementSection(saidPlace),
      ].filter(Boolean),
    );
    for (const made of this.box.querySelectorAll("details")) {
      const within = made.closest("section");
      made.dataset.name =
        (within ? within.id : "") + "/" + made.querySelector("summary").textContent;
      made.open = kept.open.has(made.dataset.name);
    }
    this.turnTo(kept.row);
  }

  turnTo(row) {
    this.kept.row = row;
    this.pipeline.selected = row;
    if (this.streams) this.streams.show(row);
    if (this.memory) this.memory.show(row);
    for (const p of this.pickers) p.value = String(row);
    this.pipeline.chart.refresh();
  }
  refresh() {
    this.pipeline.chart.refresh();
    if (this.streams) this.streams.chart.refresh();
  }
  paint() {
    for (const c of this.charts) c.chart.paint();
  }

  picker() {
    const { devices } = this.page.timeline;
    if (devices.length < 2) return null;
    const made = element(
      "select",
      { "aria-label": "Device", onchange: () => this.turnTo(Number(made.value)) },
      devices.map((d, i) =>
        element(
          "option",
          { value: i },
          rowName(d) + (d.represents > 1 ? `, for ${d.represents}` : ""),
        ),
      ),
    );
    this.pickers.push(made);
    return element("div", { class: "controls" }, element("label", {}, "device ", made));
  }

  pipelineSection(said) {
    const { timeline: t } = this.page,
      { kept, pipeline } = this;
    const stands = t.devices.some((d) => d.represents > 1)
      ? " A row stands for all ranks that provably behave like it."
      : "";
    const drawn =
      t.devices.length < t.simulated
        ? ` Of ${count(t.simulated)} simulated devices ${t.devices.length} are drawn, evenly spread.`
        : "";
    const colours = colourChoice(kept.by, (by) => {
      kept.by = pipeline.by = by;
      this.refresh();
    });
    const path = checkbox("critical path", kept.path, (on) => {
      kept.path = pipeline.showPath = on;
      this.refresh();
    });
    return section(
      "pipeline",
      "Pipeline",
      element("div", { class: "controls" }, colours, path),
      note(
        "Stages down, time across; numbers are microbatches" +
          (t.chunks > 1 ? ", paler for later chunks" : "") +
          ". Point at a block for what it waited for; drag to zoom, double-click for the whole step. The dark line is the critical path." +
          stands +
          drawn,
      ),
      pipeline.box,
      legend(pipelineLegend(t)),
      said,
      blocksTable(t, pipeline),
    );
  }

  streamsSection() {
    if (!this.streams) return null;
    const { timeline, activity } = this.page;
    return section(
      "streams",
      "Streams of one device",
      this.picker(),
      note("Strong colour: bytes move while no kernel runs. Pale: hidden under compute."),
      this.streams.box,
      legend([
        ["forward", "forward"],
        ["backward", "backward"],
        ["weight gradients", "weight"],
        ["optimizer and copies", "step"],
        ...[...new Set(activity.map((a) => timeline.classes[a.class]))].map((c) => [c, c]),
      ]),
      folded("Table of tasks in sight", () => {
        const { total, rows } = this.streams.rows(300);
        return [
          element("p", {}, `The first ${rows.length} of ${plural(total, "task")} in sight`),
          table(
            "Tasks in sight",
            [["stream"], ["task"], ["starts", true], ["takes", true], ["held up by"]],
            rows,
          ),
        ];
      }),
    );
  }

  memorySection() {
    if (!this.memory) return null;
    return section(
      "memory",
      "Memory",
      this.picker(),
      note(
        "Live bytes of one device over the step, against its capacity; hatched is what framework and communicators reserve.",
      ),
      this.memory.box,
      legend(
        memoryClasses
          .filter(([name]) => this.page.memory.rows.some((r) => atPeak(r)[name] > 0))
          .map(([name, variable]) => [classWords[name] || name, variable])
          .concat([["reserve", "bubble", true]]),
      ),
      element("h3", { style: { "margin-top": "14px" } }, "At its fullest, by stage"),
      element(
        "div",
        { class: this.page.memory.rows.length > 24 ? "many" : "" },
        peakBars(this.page),
      ),
    );
  }

  placementSection(said) {
    if (!this.map) return null;
    const p = this.page.placement;
    return section(
      "placement",
      "Placement",
      element("div", { class: "controls" }, p.groups.length ? this.map.controls : null),
      note(
        `Each cell is a rank, each box ${p.nvlink_domain === p.gpus_per_node ? "a node, which is an NVLink domain" : `an NVLink domain of ${p.nvlink_domain}`}; shades tell stages apart. Point at a rank: its group lights up, red where it straddles domains.`,
      ),
      this.map.box,
      said,
      element("div", { class: "scroll" }, this.map.table()),
    );
  }
}
