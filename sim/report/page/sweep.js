// The page of a sweep: its best point, lines or a heat map, where each step goes, all rows.
import { checkbox, choice, element, legend, section, table } from "./element.js";
import { bar } from "./bars.js";
import { causeWords, count, gib, percent, plural, seconds } from "./words.js";
import { figureGrid, fileName, fillPage, followTheme, lead, pageHead, pageJson } from "./frame.js";
import { seriesLegend } from "./plot.js";
import { heatMap, lineChart } from "./sweep_charts.js";
import { cut, SweepRows } from "./sweep_parts.js";

const raw = pageJson(),
  sweep = new SweepRows(raw),
  { axes, rows } = sweep;
const failed = rows.filter((r) => r.done && !r.step).length,
  large = rows.filter((r) => r.step && !r.feasible).length,
  fit = rows.filter((r) => r.feasible).length,
  best = raw.best === null ? null : rows[raw.best];

function head() {
  return pageHead({
    heading: `${plural(rows.length, "point")} of ${fileName(raw.file)}`,
    tab: `Sweep of ${fileName(raw.file)}`,
    subtitles: [
      axes.map((a) => cut(`${a.name}: ${a.points.join(", ")}`, 160)).join("; "),
      fileName(raw.file) === raw.file ? "" : raw.file,
      raw.complete ? "" : "Interrupted: some points were not run.",
    ],
    version: raw.version,
    brand: "one scenario, many settings",
  });
}

function headFigures() {
  const counts = [
    "points",
    "points that fit",
    `${count(fit)} of ${count(rows.length)}`,
    [large ? `${large} do not fit in memory` : "", failed ? `${failed} cannot be run` : ""],
    fit ? "" : "bad",
  ];
  if (!best)
    return figureGrid([
      ["best", "best point", "none", "no point runs and fits", "main bad"],
      counts,
    ]);
  const bySteps = raw.aim === "step";
  return figureGrid([
    [
      "best",
      bySteps ? "shortest step" : "most tokens/s/GPU",
      bySteps ? seconds(best.step) : best.tokens.toFixed(1),
      [
        cut(sweep.name(raw.best), 120),
        best.high > best.low * (1 + 1e-9) &&
          `${seconds(best.low)} to ${seconds(best.high)} in 80 % of cases`,
      ],
      "main",
    ],
    bySteps
      ? best.tokens !== null && ["tokens", "throughput", best.tokens.toFixed(1), "tokens/s/GPU"]
      : ["step", "step time", seconds(best.step)],
    best.mfu !== null && ["mfu", "MFU", percent(best.mfu)],
    best.needed !== null && [
      "memory",
      "memory",
      gib(best.needed),
      `with reserve, of ${gib(best.capacity)}`,
    ],
    counts,
  ]);
}

const state = {
  metric: sweep.aim,
  across: axes.length === 1 ? 0 : 1,
  down: axes.length === 1 ? -1 : 0,
  form: axes.length === 1 ? "lines" : "map",
  zero: false,
};
const plots = { lines: lineChart(sweep, state), map: heatMap(sweep, state) };
const keys = element("div");
const note = element("p", { class: "note" });

function redraw() {
  const { form, down, across } = state;
  if (form === "map") plots.map.fit();
  plots.lines.box.hidden = form !== "lines";
  plots.map.box.hidden = form !== "map";
  plots[form].paint();
  keys.replaceChildren(
    form === "lines" && down >= 0
      ? seriesLegend(axes[down].points.map((p) => `${axes[down].name}=${cut(p, 24)}`))
      : "",
  );
  const rest = axes.filter((_, i) => i !== across && i !== down).map((a) => a.name);
  note.replaceChildren(
    (rest.length ? `Each place shows the best over ${rest.join(" and ")}. ` : "") +
      (form === "lines"
        ? "A ring marks the best; a red cross what does not fit (at its value) or cannot be run (on the axis)."
        : "The outlined cell is the best."),
  );
}

function chartSection() {
  const pick = (name, key) => {
    const made = element(
      "select",
      {
        "aria-label": name,
        onchange: () => {
          const other = key === "across" ? "down" : "across",
            chosen = Number(made.value);
          // Two axes change places rather than meet.
          if (state[other] === chosen) {
            state[other] = state[key];
            pickers[other].value = String(state[other]);
          }
          state[key] = chosen;
          redraw();
        },
      },
      axes.map((a, i) => element("option", { value: i }, cut(a.name, 40))),
    );
    made.value = String(state[key]);
    return made;
  };
  const pickers =
    axes.length > 1 ? { across: pick("across", "across"), down: pick("down", "down") } : {};
  return section(
    "chart",
    "What it does",
    element(
      "div",
      { class: "controls" },
      choice(
        "Figure",
        sweep.metrics.map((m) => [m.key, m.name]),
        state.metric.key,
        (key) => {
          state.metric = sweep.metrics.find((m) => m.key === key);
          redraw();
        },
      ),
      axes.length > 1 && [
        choice(
          "Form",
          [
            ["map", "map"],
            ["lines", "lines"],
          ],
          state.form,
          (form) => {
            state.form = form;
            redraw();
          },
        ),
        element("label", {}, "across ", pickers.across),
        element("label", {}, "down ", pickers.down),
      ],
      checkbox("from 0", false, (on) => {
        state.zero = on;
        redraw();
      }),
    ),
    lead("Point at a place for its figures, or for the reason why it cannot be."),
    plots.lines.box,
    plots.map.box,
    keys,
    note,
  );
}

const bestFirst = (list) =>
  [...list].sort((a, b) => (sweep.better(a, b) ? -1 : sweep.better(b, a) ? 1 : a - b));

/** In the order of every ledger, those that take time. */
const causes = (row) =>
  Object.keys(causeWords)
    .map((cause) => [cause, row.ledger[cause] || 0])
    .filter(([, s]) => s > 0);

function ledgerSection() {
  const ran = rows.map((_, i) => i).filter((i) => rows[i].step),
    most = 40;
  if (!ran.length) return null;
  const drawn = ran.length > most ? bestFirst(ran).slice(0, most) : ran,
    longest = Math.max(...drawn.map((i) => rows[i].step));
  const made = element("div", {
    class: "bars",
    style: { "grid-template-columns": "minmax(80px, max-content) 1fr max-content" },
  });
  const seen = new Set();
  for (const i of drawn) {
    const row = rows[i],
      name = cut(sweep.name(i), 42);
    for (const [cause] of causes(row)) seen.add(cause);
    made.append(
      element("span", { class: "name" }, i === raw.best ? element("b", {}, name) : name),
      bar(
        `${name}: ${seconds(row.step)}`,
        causes(row).map(([cause, s]) => [
          causeWords[cause],
          s / longest,
          `var(--${cause.replace("exposed_", "")})`,
          `${seconds(s)}, ${percent(s / row.step)} of the step`,
          cause === "bubble",
        ]),
      ),
      element("span", { class: row.feasible ? "" : "red" }, seconds(row.step)),
    );
  }
  return section(
    "ledger",
    "Where each step goes",
    null,
    lead(
      "The mean rank's step by cause, on one scale; red where it does not fit in memory." +
        (ran.length > most ? ` The best ${most} of ${count(ran.length)}.` : ""),
    ),
    made,
    legend(
      Object.keys(causeWords)
        .filter((c) => seen.has(c))
        .map((c) => [causeWords[c], c.replace("exposed_", ""), c === "bubble"]),
    ),
  );
}

function tableSection() {
  const most = 1000,
    holder = element("div", {
      class: "scroll tall",
      tabindex: "0",
      role: "region",
      "aria-label": "All points",
    });
  const fill = (order) => {
    const list = rows.map((_, i) => i);
    const ordered =
      order === "best"
        ? [
            ...bestFirst(list.filter((i) => rows[i].feasible)),
            ...bestFirst(list.filter((i) => rows[i].step && !rows[i].feasible)),
            ...list.filter((i) => !rows[i].step),
          ]
        : list;
    holder.replaceChildren(
      table(
        "All points",
        [
          ...axes.map((a) => [cut(a.name, 40)]),
          ...sweep.metrics.map((m) => [m.name, true]),
          ["most beside compute, or why not"],
        ],
        ordered.slice(0, most).map((i) => {
          const mark = (text) => (i === raw.best ? element("b", {}, text) : text);
          return [
            ...axes.map((a, k) => mark(cut(a.points[sweep.index(i, k)], 60))),
            ...sweep.metrics.map((m) =>
              mark(Number.isFinite(rows[i][m.key]) ? m.quantity.words(rows[i][m.key]) : "-"),
            ),
            element(
              "span",
              { class: "long" + (rows[i].feasible ? "" : " red") },
              rows[i].why + (i === raw.best ? " (the best)" : ""),
            ),
          ];
        }),
      ),
    );
  };
  fill("asked");
  return section(
    "points",
    "All points",
    choice(
      "Order",
      [
        ["asked", "as asked"],
        ["best", "best first"],
      ],
      "asked",
      fill,
    ),
    rows.length > most ? lead(`The first ${count(most)} of ${count(rows.length)}.`) : null,
    holder,
  );
}

const body = document.getElementById("page");
body.append(head(), headFigures());
fillPage(body, [chartSection(), ledgerSection(), tableSection()]);
redraw();
followTheme(() => {});

/** For tests and the console. */
globalThis.stepsim = { raw, sweep, state, plots };
