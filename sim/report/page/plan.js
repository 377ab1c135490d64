// The page of plans: the frontier of time, memory and GPUs, the ranking and what decides it, what a run costs.
import { element, folded, section, table } from "./element.js";
import { bar } from "./bars.js";
import { causeWords, count, gib, percent, plural, seconds, signedPercent } from "./words.js";
import { figureGrid, fileName, fillPage, followTheme, lead } from "./frame.js";
import { pageHead, pageJson, wide } from "./frame.js";
import { frontierChart, frontierSection, sizeSection } from "./plan_charts.js";
import { layoutOf, left, needed, Plans, whole } from "./plan_rows.js";
import { causeSeconds, waterfall } from "./waterfall.js";

const plans = new Plans(pageJson()),
  { raw, plan, question, sizes, winner, winnerSize } = plans;
const frontier = frontierChart(plans);
const days = (v) => (v >= 100 ? v.toFixed(0) : v.toFixed(1)) + " days";

function head() {
  const gpus = sizes.map((s) => count(s.gpus)).join(", ");
  return pageHead({
    heading: winner
      ? `${fileName(raw.name)}: ${winner.layout} on ${plural(winner.gpus, "GPU")}`
      : `${fileName(raw.name)}: ${plans.feasible ? "nothing in the time or for the money" : "nothing fits"}`,
    tab: `Plan of ${fileName(raw.name)}`,
    subtitles: [
      winner?.settings ? `with ${winner.settings}` : "",
      `the fastest of ${plural(plan.space, "layout")} on ${gpus} GPUs` +
        (fileName(raw.name) === raw.name ? "" : ` of ${raw.name}`),
      plan.complete ? "" : "Interrupted: the ranking is of what was simulated until then.",
    ],
    version: plan.version,
    brand: "layouts, searched",
  });
}

function headFigures() {
  if (!winner) return figureGrid([]);
  const r = winner.report,
    { run } = winnerSize;
  return figureGrid([
    [
      "step",
      "step time",
      seconds(r.step_time_seconds),
      r.interval &&
        `${seconds(r.interval.low_seconds)} to ${seconds(r.interval.high_seconds)} in ${percent(r.interval.level, 0)} of cases`,
      "main",
    ],
    r.tokens_per_second_per_gpu !== null && [
      "tokens",
      "throughput",
      r.tokens_per_second_per_gpu.toFixed(1),
      "tokens/s/GPU",
    ],
    r.mfu !== null && ["mfu", "MFU", percent(r.mfu)],
    r.memory && [
      "memory",
      "memory left",
      gib(left(r)),
      `${gib(needed(r))} needed of ${gib(r.memory.capacity_bytes)}`,
    ],
    run && [
      "days",
      "the run",
      days(run.days),
      [
        `${run.days_low.toFixed(1)} to ${run.days_high.toFixed(1)}; ${(question.tokens / 1e12).toPrecision(3)} T tokens`,
        `${percent(run.effective_share)} of it is training`,
      ],
      run.in_time ? "" : "bad",
    ],
    run &&
      (run.money !== null
        ? [
            "money",
            "money",
            whole(run.money),
            `${whole(run.gpu_hours)} GPU-hours`,
            run.in_budget ? "" : "bad",
          ]
        : ["hours", "GPU-hours", whole(run.gpu_hours)]),
  ]);
}

function rankingSection() {
  if (!plans.feasible) return null;
  return section(
    "ranking",
    "Ranking",
    null,
    lead(
      "Certain as if everything had been simulated: what was not has a lower bound of its step behind the last row.",
    ),
    sizes.flatMap((size) => {
      const rows = plans.ranked(size);
      if (!rows.length) return [];
      const least = rows[0].report.step_time_seconds;
      return [
        sizes.length > 1 ? element("h3", { class: "side" }, plural(size.gpus, "GPU")) : null,
        wide(
          table(
            `Layouts on ${size.gpus} GPUs, fastest first`,
            [
              ["#", true],
              ["layout"],
              ["step", true],
              ["behind", true],
              ["tokens/s/GPU", true],
              ["MFU", true],
              ["memory", true],
              ["left", true],
            ],
            rows.map((row, i) => {
              const r = row.report;
              return [
                String(i + 1),
                [
                  element("b", {}, row.layout),
                  row.settings ? element("div", { class: "soft" }, row.settings) : "",
                ],
                seconds(r.step_time_seconds),
                i ? signedPercent(r.step_time_seconds / least - 1, 2) : "",
                r.tokens_per_second_per_gpu?.toFixed(1) ?? "-",
                percent(r.mfu),
                r.memory ? gib(needed(r)) : "-",
                r.memory ? gib(left(r)) : "-",
              ].map((cell) => (Array.isArray(cell) ? element("span", {}, cell) : cell));
            }),
          ),
        ),
      ];
    }),
    folded("Each as overrides of Megatron-Bridge", () =>
      plan.rows.flatMap((row, i) => [
        element("h3", { class: "side" }, `${layoutOf(row)}, ${plural(row.gpus, "GPU")}`),
        element("pre", {}, raw.overrides[i]),
      ]),
    ),
  );
}

/** What the winner can be held against: [name, report]. */
function rivals() {
  const out = plans
    .ranked(winnerSize)
    .slice(1)
    .map((row, i) => [`${i + 2}: ${layoutOf(row)}`, row.report]);
  for (const row of plan.frontier)
    if (
      row.gpus === winner.gpus &&
      !plan.rows.some((r) => r.gpus === row.gpus && layoutOf(r) === layoutOf(row))
    )
      out.push([`frontier: ${layoutOf(row)}`, row.report]);
  if (winnerSize.guide_row)
    out.push([`the guide's: ${layoutOf(winnerSize.guide_row)}`, winnerSize.guide_row.report]);
  if (winnerSize.against?.report) out.push(["the given layout", winnerSize.against.report]);
  return out;
}

function whySection() {
  const list = winner ? rivals() : [];
  if (!list.length) return null;
  const holder = element("div");
  const show = (i) => {
    const [name, report] = list[i],
      from = causeSeconds(winner.report),
      to = causeSeconds(report);
    holder.replaceChildren(
      waterfall(
        `From the winner's step to that of ${name}, by cause`,
        winner.report.step_time_seconds,
        report.step_time_seconds,
        Object.keys(to)
          .map((cause) => [causeWords[cause], to[cause] - (from[cause] || 0)])
          .filter(([, s]) => Math.abs(s) > 1e-9 * report.step_time_seconds),
        { ends: ["the winner", name] },
      ),
    );
  };
  const select = element(
    "select",
    { "aria-label": "Against", onchange: () => show(Number(select.value)) },
    list.map(([name], i) =>
      element("option", { value: i }, name.length > 90 ? name.slice(0, 88) + ".." : name),
    ),
  );
  show(0);
  return section(
    "why",
    "Why the winner wins",
    element("div", { class: "controls" }, element("label", {}, "against ", select)),
    lead("What the mean rank of the other layout spends more, or less, by cause."),
    holder,
  );
}

function searchSection() {
  const rows = sizes.map((s) => [s.space, s.infeasible, s.pruned, s.simulated]);
  const [space, infeasible, pruned, simulated] = [0, 1, 2, 3].map((i) =>
    rows.reduce((sum, r) => sum + r[i], 0),
  );
  const part = (name, n, background, hatched) => [
    name,
    n / Math.max(1, space),
    background,
    plural(n, "layout"),
    hatched,
  ];
  return section(
    "searched",
    "What was searched",
    null,
    lead(
      `${plural(space, "layout")}: ${count(infeasible)} do not fit in memory, ${count(pruned)} are provably slower than what is ranked and were not simulated, ${count(simulated)} were.`,
    ),
    bar(
      `${space} layouts: ${infeasible} do not fit, ${pruned} provably slower, ${simulated} simulated`,
      [
        part("do not fit", infeasible, "", true),
        part("provably slower", pruned, "var(--contention)"),
        part("simulated", simulated, "var(--accent)"),
      ],
    ),
    wide(
      table(
        "Layouts searched",
        [
          ["GPUs", true],
          ["layouts", true],
          ["do not fit", true],
          ["provably slower", true],
          ["simulated", true],
          ["the guide starts with"],
        ],
        sizes.map((s, i) => [count(s.gpus), ...rows[i].map(count), s.guide || "-"]),
      ),
    ),
    sizes
      .filter((s) => s.against)
      .map((s) =>
        element(
          "p",
          { class: "note" },
          s.against.report
            ? `The given layout takes ${seconds(s.against.report.step_time_seconds)}: at least ${count(s.against.faster)} and at most ${count(s.against.maybe_faster)} of ${count(s.against.feasible)} layouts are faster.`
            : "The given layout cannot run.",
        ),
      ),
  );
}

function runSection() {
  const run = winnerSize?.run;
  if (!run) return null;
  const line = (name, value) => (value === null || value === undefined ? null : [name, value]);
  return section(
    "run",
    "The whole run",
    null,
    lead(
      `${(question.tokens / 1e12).toPrecision(3)} T tokens on ${plural(winner.gpus, "GPU")}, with what failures and checkpoints cost.`,
    ),
    wide(
      table(
        "The whole run",
        [["what"], ["value", true]],
        [
          line(
            "days",
            `${run.days.toFixed(1)} (${run.days_low.toFixed(1)} to ${run.days_high.toFixed(1)})`,
          ),
          question.most_days === null ? null : line("days allowed", question.most_days.toFixed(1)),
          line("GPU-hours", whole(run.gpu_hours)),
          run.money === null ? null : line("money", whole(run.money)),
          question.budget === null ? null : line("budget", whole(question.budget)),
          run.megawatt_hours === null ? null : line("MWh", whole(run.megawatt_hours)),
          line(
            "share of the time that is training",
            `${percent(run.effective_share)} (${percent(run.effective_share_low)} to ${percent(run.effective_share_high)})`,
          ),
          run.mtbf_seconds === null
            ? null
            : line("a failure every", `${(run.mtbf_seconds / 3600).toFixed(1)} h`),
          run.checkpoint_interval_seconds === null
            ? null
            : line("a checkpoint every", `${run.checkpoint_interval_seconds.toFixed(0)} s`),
          line("a checkpoint stops training for", `${question.save_seconds.toFixed(0)} s`),
          line("from a failure to training", `${question.restart_seconds.toFixed(0)} s`),
        ].filter(Boolean),
      ),
    ),
  );
}

const body = document.getElementById("page");
body.append(head(), headFigures());
fillPage(body, [
  sizeSection(plans),
  frontierSection(plans, frontier),
  rankingSection(),
  whySection(),
  runSection(),
  searchSection(),
]);
followTheme(() => {});

/** For tests and the console. */
globalThis.stepsim = { raw, plan, winner, frontier };
