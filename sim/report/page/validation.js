// The page of predicted against measured: a scatter by group, groups and rows with the worst first.
import { choice, element, folded, section, table } from "./element.js";
import { count, percent, plural, seconds, signedPercent } from "./words.js";
import { figureGrid, fileName, fillPage, followTheme, lead, pageHead, pageJson } from "./frame.js";
import { mostSeries, seriesLegend } from "./plot.js";
import { quantities } from "./scales.js";
import { Scatter } from "./scatter.js";

const raw = pageJson(),
  { statistics } = raw.validation,
  every = raw.validation.rows;
const rows = every.filter((r) => r.relative_error !== null && r.measured_seconds > 0),
  unpredicted = every.filter((r) => r.relative_error === null);
const intervals = rows.some((r) => r.low_seconds > 0);
// An interval without width holds what it predicts.
const inside = (r) =>
  r.low_seconds * (1 - 1e-9) <= r.measured_seconds &&
  r.measured_seconds <= r.high_seconds * (1 + 1e-9);
const within = (share) => rows.filter((r) => Math.abs(r.relative_error) <= share).length;

/** What a machine does in one type; which collective; which kernel. */
function kindOf(group) {
  const parts = group.split("|");
  if (parts.length > 2) return parts[1] + " " + parts[2];
  const words = group.split(" ");
  if (raw.what === "collectives") return words.at(-1);
  return words.length > 2 ? words.slice(0, -2).join(" ") : group;
}
const counts = new Map();
for (const r of rows) counts.set(kindOf(r.group), (counts.get(kindOf(r.group)) || 0) + 1);
const kinds = [...counts].sort((a, b) => b[1] - a[1]).map(([kind]) => kind);
const seriesOf = new Map(kinds.map((kind, i) => [kind, Math.min(i, mostSeries - 1)]));

function head() {
  return pageHead({
    heading: `Predicted against measured: ${plural(rows.length, raw.what.slice(0, -1))}`,
    tab: `Validation of ${fileName(raw.file)}`,
    subtitles: [
      raw.file,
      unpredicted.length
        ? `${plural(unpredicted.length, "row")} of ${count(every.length)} not predicted, see below`
        : "",
    ],
    version: raw.version,
    brand: "simulator, checked",
  });
}

function headFigures() {
  const { overall, scored } = statistics;
  if (!overall) return figureGrid([["mean", "rows predicted", "0", "", "main bad"]]);
  return figureGrid([
    [
      "mean",
      "mean error, unsigned",
      percent(overall.mean_abs),
      [
        `${plural(overall.count, "row")}${raw.what === "collectives" ? " from 1 MiB on" : ""}`,
        scored &&
          `${percent(scored.mean_abs)} of the ${count(scored.count)} scored: tier A, newest of their source`,
      ],
      "main",
    ],
    ["median", "median", percent(overall.median_abs), "half of the rows are nearer"],
    ["p90", "90th percentile", percent(overall.p90_abs), `worst ${percent(overall.max_abs)}`],
    [
      "bias",
      "bias",
      signedPercent(overall.bias),
      Math.abs(overall.bias) < 5e-4
        ? "neither too slow nor too fast"
        : overall.bias > 0
          ? "predicted too slow"
          : "predicted too fast",
    ],
    [
      "within",
      "within 10 %",
      percent(rows.length ? within(0.1) / rows.length : null, 0),
      `${count(within(0.1))} of ${count(rows.length)} rows`,
    ],
    intervals && [
      "inside",
      "inside the interval",
      percent(rows.filter(inside).length / rows.length, 0),
      "80 % were meant to be",
    ],
  ]);
}

const state = { view: "both", group: "", words: "" };
const chosen = (r) =>
  (!state.group || r.group === state.group) &&
  (!state.words || (r.id + " " + r.group).toLowerCase().includes(state.words.toLowerCase()));
const describe = (r) => [
  ["measured", seconds(r.measured_seconds)],
  ["predicted", seconds(r.predicted_seconds)],
  ["error", signedPercent(r.relative_error)],
  r.low_seconds > 0
    ? ["interval", `${seconds(r.low_seconds)} to ${seconds(r.high_seconds)}`]
    : null,
  r.group.split("|").join(", "),
  r.assumed?.length ? `Assumed, nobody published it: ${r.assumed.join(", ")}` : null,
];

const scatter = new Scatter(
  "Predicted against measured times. Arrow keys go from point to point.",
  560,
  () => {
    const errors = state.view === "error";
    const shown = [...rows].sort((a, b) => chosen(a) - chosen(b)); // the chosen ones on top
    const all = rows.flatMap((r) => [r.measured_seconds, r.predicted_seconds]);
    const span = [Math.min(...all) / 1.25, Math.max(...all) * 1.25];
    const time = (name, range) => ({ name, tick: quantities.seconds.tick, log: true, range });
    const selected = shown.filter(chosen);
    return {
      points: shown
        .filter((r) => chosen(r) || !errors)
        .map((r) => ({
          x: r.measured_seconds,
          y: errors ? r.relative_error : r.predicted_seconds,
          ...(r.low_seconds > 0 && chosen(r)
            ? errors
              ? {}
              : { low: r.low_seconds, high: r.high_seconds }
            : {}),
          series: seriesOf.get(kindOf(r.group)),
          faint: !chosen(r),
          heading: r.id,
          lines: describe(r),
        })),
      x: time("measured", errors ? undefined : span),
      y: errors
        ? {
            name: "predicted / measured - 1",
            tick: quantities.share.tick,
            range: bounds(selected.map((r) => r.relative_error)),
          }
        : time("predicted", span),
      under: (plot, x, y, area) => {
        for (const [factor, style] of [
          [1, "same"],
          [1.1, "band"],
          [0.9, "band"],
        ])
          plot.add("path", {
            class: style,
            d: errors
              ? `M${area.left} ${y.at(factor - 1)}H${area.right}`
              : `M${x.at(x.low)} ${y.at(x.low * factor)}L${x.at(x.high)} ${y.at(x.high * factor)}`,
          });
      },
    };
  },
);
/** As far up as down, so that a bias is seen. */
function bounds(errors) {
  const most = 1.1 * errors.reduce((m, e) => Math.max(m, Math.abs(e)), 0.12);
  return [-most, most];
}

const rowsHolder = element("div", {
  class: "scroll tall",
  tabindex: "0",
  role: "region",
  "aria-label": "Rows, the worst first",
});
const groupPicker = element(
  "select",
  { "aria-label": "Group", onchange: () => turnTo(groupPicker.value) },
  element("option", { value: "" }, "all groups"),
  Object.keys(statistics.by_group).map((g) =>
    element("option", { value: g }, g.length > 70 ? g.slice(0, 68) + ".." : g),
  ),
);
const searchBox = element("input", {
  type: "search",
  "aria-label": "Rows whose name or group contains",
  placeholder: "name contains",
  oninput: () => {
    state.words = searchBox.value;
    redraw();
  },
});

/** A bar to the right where the prediction is too slow, to the left where too fast. */
function errorBar(error, most) {
  const share = Math.min(1, Math.abs(error) / most) * 50;
  return element(
    "span",
    { class: "signed", "aria-hidden": "true" },
    element("i", {
      class: error > 0 ? "more" : "less",
      style: { left: (error > 0 ? 50 : 50 - share) + "%", width: share + "%" },
    }),
  );
}

function redraw() {
  scatter.paint();
  const most = 500,
    list = rows
      .filter(chosen)
      .sort((a, b) => Math.abs(b.relative_error) - Math.abs(a.relative_error));
  const worst = Math.max(1e-9, ...list.slice(0, 1).map((r) => Math.abs(r.relative_error)));
  rowsHolder.replaceChildren(
    element(
      "p",
      { class: "note" },
      list.length > most
        ? `The worst ${most} of ${count(list.length)}.`
        : plural(list.length, "row") + ".",
    ),
    table(
      "Rows, the worst first",
      [
        ["row"],
        ["group"],
        ["measured", true],
        ["predicted", true],
        ["error", true],
        ["too fast | too slow"],
        ...(intervals ? [["interval", true]] : []),
      ],
      list
        .slice(0, most)
        .map((r) => [
          r.id,
          element("span", { class: "long" }, r.group.split("|").join(", ")),
          seconds(r.measured_seconds),
          seconds(r.predicted_seconds),
          signedPercent(r.relative_error),
          errorBar(r.relative_error, worst),
          ...(intervals
            ? [
                r.low_seconds > 0
                  ? element(
                      "span",
                      { class: inside(r) ? "" : "red" },
                      `${seconds(r.low_seconds)} to ${seconds(r.high_seconds)}${inside(r) ? "" : ", outside"}`,
                    )
                  : "-",
              ]
            : []),
        ]),
    ),
  );
}
function turnTo(group) {
  state.group = group;
  groupPicker.value = group;
  scatter.window = null;
  redraw();
}

function scatterSection() {
  if (!rows.length) return null;
  return section(
    "scatter",
    "Predicted against measured",
    element(
      "div",
      { class: "controls" },
      choice(
        "Up",
        [
          ["both", "predicted"],
          ["error", "error"],
        ],
        "both",
        (view) => {
          state.view = view;
          scatter.reset();
        },
      ),
      groupPicker,
      searchBox,
      scatter.whole,
    ),
    lead(
      "On the line a prediction is exact; dashed, 10 % to either side." +
        (intervals ? " A thin stroke is the prediction's 80 % interval." : "") +
        " Drag a box to zoom, double-click for all.",
    ),
    scatter.box,
    seriesLegend([
      ...kinds.slice(0, mostSeries - 1),
      ...(kinds.length >= mostSeries ? [`${kinds.length - mostSeries + 1} more`] : []),
    ]),
  );
}

function groupSection() {
  const groups = Object.entries(statistics.by_group).filter(([, s]) => s);
  if (!groups.length) return null;
  const mean = (s) => s.mean_abs ?? s.median_abs,
    most = Math.max(...groups.map(([, s]) => Math.abs(s.bias)), 1e-9);
  return section(
    "groups",
    "Groups, the worst first",
    null,
    lead("Choose one to see it alone above and below."),
    element(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Groups" },
      table(
        "Groups, the worst first",
        [
          ["group"],
          ["rows", true],
          ["mean", true],
          ["median", true],
          ["worst", true],
          ["bias", true],
          ["too fast | too slow"],
        ],
        groups.map(([name, s]) => [
          element(
            "button",
            { type: "button", class: "plain long", onclick: () => turnTo(name) },
            name.split("|").join(", "),
          ),
          count(s.count),
          percent(mean(s)),
          percent(s.median_abs),
          percent(s.max_abs),
          signedPercent(s.bias),
          errorBar(s.bias, most),
        ]),
      ),
    ),
  );
}

function missingSection() {
  if (!unpredicted.length) return null;
  const reasons = new Map();
  for (const r of unpredicted) reasons.set(r.failure, [...(reasons.get(r.failure) || []), r.id]);
  return section(
    "missing",
    "Not predicted",
    null,
    folded(plural(unpredicted.length, "row"), () =>
      table(
        "Rows that are not predicted",
        [["reason"], ["rows", true], ["which"]],
        [...reasons].map(([reason, ids]) => [
          element("span", { class: "long" }, reason),
          count(ids.length),
          ids.slice(0, 8).join(", ") + (ids.length > 8 ? ", .." : ""),
        ]),
      ),
    ),
  );
}

const body = document.getElementById("page");
body.append(head(), headFigures());
fillPage(body, [
  scatterSection(),
  groupSection(),
  rows.length ? section("rows", "Rows, the worst first", null, rowsHolder) : null,
  missingSection(),
]);
redraw();
followTheme(() => {});

/** For tests and the console. */
globalThis.stepsim = { raw, rows, state, scatter, turnTo };
