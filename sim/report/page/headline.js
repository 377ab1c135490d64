// The top of a page: whose step it is, its headline figures, and what was not as asked for.
import { element, section, shape } from "./element.js";
import { figureGrid, pageHead } from "./frame.js";
import { count, gib, percent, plural, seconds } from "./words.js";

export function layoutWords(report, title) {
  const m = report.mesh,
    parts = [`TP${m.tp}`, `PP${m.pp}`];
  if (m.vp !== null) parts.push(`VP${m.vp}`);
  parts.push(`CP${m.cp}`, `DP${m.dp}`);
  if (title.experts) parts.push(`EP${m.ep}`);
  if (title.experts && m.etp > 1) parts.push(`ETP${m.etp}`);
  if (title.sequence_parallel) parts.push("SP");
  return parts.join(" ");
}

/** Title, layout and settings of a run. */
export function masthead(report, title) {
  const name = title.given_costs
    ? `${title.name || "given costs"} (given costs)`
    : title.model || title.name;
  const heading = `${name} on ${plural(report.counts.gpus, "GPU")}`;
  const second = title.given_costs
    ? `GBS ${count(title.global_batch)}, MBS ${title.micro_batch}; times per stage as given`
    : `GBS ${count(title.global_batch)}, MBS ${title.micro_batch}, sequence ${count(title.sequence)}, ${title.precision}; ${title.system}, ${plural(title.nodes, "node")} of ${title.gpus_per_node} x ${title.device}`;
  return pageHead({
    heading,
    tab: `${heading}: ${seconds(report.step_time_seconds)}`,
    subtitles: [
      `${layoutWords(report, title)}, ${report.mesh.schedule}, ${plural(report.mesh.microbatches, "microbatch")}`,
      second,
    ],
    version: report.version,
    brand: "one training step, simulated",
  });
}

/** A scale from the low to the high end of the interval, with the step on it. */
function intervalScale({ low_seconds: low, high_seconds: high }, step, measured) {
  const x = (t) => 8 + ((t - low) / (high - low)) * 284;
  const drawn = shape(
    "svg",
    { class: "interval", viewBox: "0 0 300 22", "aria-hidden": "true" },
    shape("line", { x1: 8, x2: 292, y1: 11, y2: 11, stroke: "var(--faint)", "stroke-width": 1.5 }),
    shape("line", { x1: 8, x2: 8, y1: 6, y2: 16, stroke: "var(--faint)", "stroke-width": 1.5 }),
    shape("line", { x1: 292, x2: 292, y1: 6, y2: 16, stroke: "var(--faint)", "stroke-width": 1.5 }),
    shape("circle", { cx: x(step), cy: 11, r: 5, fill: "var(--ink)" }),
  );
  if (measured)
    drawn.append(
      shape("path", {
        d: `M ${Math.min(296, Math.max(4, x(measured)))} 3 l 4 8 l -4 8 l -4 -8 z`,
        fill: "none",
        stroke: "var(--bad)",
        "stroke-width": 1.6,
      }),
    );
  return drawn;
}

/** The figures one looks for first. */
export function figures(r, title) {
  const made = [];
  const figure = (...one) => made.push(one);
  const notes = [];
  if (r.interval)
    notes.push(
      intervalScale(r.interval, r.step_time_seconds, title.measured_step_seconds),
      `${seconds(r.interval.low_seconds)} to ${seconds(r.interval.high_seconds)} in ${percent(r.interval.level, 0)} of cases; most of the doubt: ${r.interval.widest}`,
    );
  if (title.measured_step_seconds)
    notes.push(
      `measured ${seconds(title.measured_step_seconds)}, error ${((r.step_time_seconds / title.measured_step_seconds - 1) * 100).toFixed(1)} %`,
    );
  if (r.faults)
    notes.push(
      `faults cost ${seconds(r.faults.cost_seconds)}; without them ${seconds(r.faults.step_time_without_seconds)}`,
    );
  figure("step", "step time", seconds(r.step_time_seconds), notes, "main");
  if (r.tokens_per_second_per_gpu !== null)
    figure("tokens", "throughput", r.tokens_per_second_per_gpu.toFixed(1), "tokens/s/GPU");
  if (r.mfu !== null)
    figure("mfu", "MFU", percent(r.mfu), [
      `${r.model_tflops_per_gpu.toFixed(1)} of ${(title.peak_flops_per_second / 1e12).toFixed(0)} TFLOP/s, dense ${title.peak_dtype}`,
      r.hfu > r.mfu * (1 + 1e-9) ? `HFU ${percent(r.hfu)} with recompute` : "",
    ]);
  figure(
    "bubble",
    "pipeline bubble",
    percent(r.bubble_fraction),
    `of the time of ${plural(r.counts.gpus, "GPU")}`,
  );
  if (r.overlap_efficiency.overall !== null)
    figure(
      "overlap",
      "overlap efficiency",
      percent(r.overlap_efficiency.overall),
      "of moving bytes, under compute",
    );
  if (r.memory) {
    const need = r.memory.peak_bytes + r.memory.reserve_bytes,
      free = r.memory.capacity_bytes - need;
    figure(
      "memory",
      r.memory.fits ? "peak memory" : "does not fit",
      gib(r.memory.peak_bytes),
      `rank ${r.memory.rank}, + ${gib(r.memory.reserve_bytes)} reserve; ${free >= 0 ? gib(free) + " free" : gib(-free) + " too much"} of ${gib(r.memory.capacity_bytes)}`,
      r.memory.fits ? "" : "bad",
    );
  }
  return figureGrid(made);
}

const kindOrder = { error: 0, silent: 1, unit: 2, advice: 3 };
const kindTags = { error: "Refused", silent: "Changed", unit: "Unit", advice: "Advice" };
/** What was changed, refused or noticed; null without any. */
export function findings(report) {
  if (!report.findings.length && !report.not_modelled.length) return null;
  const list = [...report.findings].sort((a, b) => kindOrder[a.kind] - kindOrder[b.kind]);
  return section(
    "findings",
    "Findings",
    null,
    element(
      "ul",
      { class: "findings" },
      list.map((f) =>
        element(
          "li",
          { class: f.kind },
          element("span", { class: "tag" }, kindTags[f.kind]),
          element(
            "div",
            {},
            element("code", {}, f.key || f.id),
            f.requested ? ` ${f.requested}` : "",
            f.effective && f.effective !== f.requested ? ` \u2192 ${f.effective}` : "",
            element("div", { class: "why" }, f.reason),
          ),
        ),
      ),
    ),
    report.not_modelled.length
      ? element("p", { class: "note" }, "Not modelled: " + report.not_modelled.join(", "))
      : null,
  );
}
