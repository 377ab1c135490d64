// A plan's charts: a figure by number of GPUs, and time against memory.
import { choice, element, folded, section, table } from "./element.js";
import { count, gib, percent, plural, seconds } from "./words.js";
import { lead, wide } from "./frame.js";
import { Plot, seriesLegend } from "./plot.js";
import { logScale, quantities } from "./scales.js";
import { Scatter } from "./scatter.js";
import { layoutOf, left, needed, whole } from "./plan_rows.js";

export function sizeSection(plans) {
  const { sizes, winnerSize } = plans;
  if (sizes.length < 2) return null;
  const withRows = sizes.filter((s) => plans.ranked(s).length);
  const total = (s) => {
    const r = plans.ranked(s)[0].report;
    return (r.tokens_per_second_per_gpu || 0) * s.gpus;
  };
  const ways = [
    ["tokens", "tokens/s", total, quantities.whole.tick],
    ...(withRows.some((s) => s.run)
      ? [
          ["days", "days", (s) => s.run.days, quantities.rate.tick],
          ["hours", "GPU-hours", (s) => s.run.gpu_hours, quantities.whole.tick],
        ]
      : []),
    ...(withRows.some((s) => s.run?.money > 0)
      ? [["money", "money", (s) => s.run.money, quantities.whole.tick]]
      : []),
  ];
  let way = ways[0];
  const chart = new Plot(
    "A figure of each size's fastest layout against the number of GPUs.",
    300,
    (plot) => {
      const [, name, of, tick] = way,
        list = withRows.filter((s) => of(s) > 0);
      if (!list.length) return;
      const area = { left: 84, right: plot.width - 16, top: 30, bottom: plot.height - 46 };
      const gpus = list.map((s) => s.gpus),
        values = list.map(of);
      const x = logScale(Math.min(...gpus) / 1.25, Math.max(...gpus) * 1.25, area.left, area.right),
        y = logScale(Math.min(...values) / 1.4, Math.max(...values) * 1.4, area.bottom, area.top);
      // Only the sizes that were asked for are marked.
      x.ticks = () => gpus;
      plot.frame(area, x, y, { xName: "GPUs", yName: name, xTick: count, yTick: tick });
      if (way[0] === "tokens")
        plot.add("path", {
          class: "line ideal",
          d: `M${x.at(gpus[0])} ${y.at(values[0])}L${x.at(gpus.at(-1))} ${y.at((values[0] * gpus.at(-1)) / gpus[0])}`,
        });
      plot.add("path", {
        class: "line",
        stroke: "var(--accent)",
        d: list.map((s, i) => `${i ? "L" : "M"}${x.at(s.gpus)} ${y.at(of(s))}`).join(""),
      });
      for (const s of list) {
        const [px, py] = [x.at(s.gpus), y.at(of(s))];
        if (s === winnerSize) plot.add("circle", { class: "best", cx: px, cy: py, r: 9 });
        plot.point(px, py, 0);
        plot.marks.push({
          x: px,
          y: py,
          heading: plural(s.gpus, "GPU"),
          lines: [
            [name, tick(of(s))],
            ["layout", layoutOf(plans.ranked(s)[0])],
          ],
        });
      }
    },
  );
  return section(
    "sizes",
    "By number of GPUs",
    ways.length > 1
      ? choice(
          "Figure",
          ways.map(([key, name]) => [key, name]),
          way[0],
          (key) => {
            way = ways.find((w) => w[0] === key);
            chart.paint();
          },
        )
      : null,
    lead(
      "The fastest layout of each size, the chosen one ringed; both axes are logarithmic. Dashed: as many times the tokens as GPUs.",
    ),
    chart.box,
    wide(
      table(
        "The fastest layout of each number of GPUs",
        [
          ["GPUs", true],
          ["step", true],
          ["tokens/s/GPU", true],
          ["MFU", true],
          ["memory left", true],
          ["days", true],
          ["GPU-hours", true],
          ["money", true],
          ["layout"],
        ],
        sizes.map((s) => {
          const row = plans.ranked(s)[0];
          if (!row) return [count(s.gpus), "-", "-", "-", "-", "-", "-", "-", "no layout fits"];
          const r = row.report,
            late = s.run && !(s.run.in_time && s.run.in_budget);
          return [
            count(s.gpus),
            seconds(r.step_time_seconds),
            r.tokens_per_second_per_gpu?.toFixed(1) ?? "-",
            percent(r.mfu),
            r.memory ? gib(left(r)) : "-",
            s.run ? s.run.days.toFixed(1) : "-",
            whole(s.run?.gpu_hours),
            whole(s.run?.money),
            element(
              "span",
              { class: late ? "red" : "" },
              layoutOf(row) + (late ? " (too late or too dear)" : ""),
            ),
          ];
        }),
      ),
    ),
  );
}

const figures = {
  step: ["step time", (r) => r.step, quantities.seconds.tick],
  tokens: ["tokens/s/GPU", (r) => r.tokens, quantities.rate.tick],
};
/** Every simulated layout, the frontier as a line; `measure` says what goes up. */
export function frontierChart({ drawn, sizes, winner }) {
  const chart = new Scatter(
    "Simulated layouts: memory of the fullest rank across, time of the step up. Arrow keys go from point to point.",
    440,
    () => {
      const [name, of, tick] = figures[chart.measure];
      const place = (r) => ({ x: r.needed, y: of(r) });
      return {
        points: drawn.map((r) => ({
          ...place(r),
          series: sizes.findIndex((s) => s.gpus === r.gpus),
          faint: !r.frontier && !r.ranked,
          ring: winner && r.gpus === winner.gpus && r.place === 0,
          heading: r.layout,
          lines: [
            r.settings ? r.settings : null,
            sizes.length > 1 ? ["GPUs", count(r.gpus)] : null,
            ["step", seconds(r.step)],
            r.tokens === null ? null : ["tokens/s/GPU", r.tokens.toFixed(1)],
            ["memory", gib(r.needed)],
            ["left", gib(r.capacity - r.needed)],
            r.ranked ? ["rank", String(r.place + 1)] : null,
            r.frontier ? "On the frontier: none is both faster and smaller." : null,
          ],
        })),
        x: {
          name: "memory of the fullest rank, with reserve",
          tick: quantities.bytes.tick,
          unit: quantities.bytes.unit,
        },
        y: { name, tick },
        lines: sizes.map((s) => ({
          class: "frontier",
          points: drawn
            .filter((r) => r.gpus === s.gpus && r.frontier)
            .sort((a, b) => a.needed - b.needed)
            .map(place)
            // In between the smaller layout is the best that fits.
            .flatMap((p, i, all) => (i ? [{ x: p.x, y: all[i - 1].y }, p] : [p])),
        })),
        under: (plot, x, y, area) => {
          const capacity = drawn[0].capacity;
          if (x.at(capacity) > area.right) return;
          plot.add("path", {
            class: "capacity",
            d: `M${x.at(capacity)} ${area.top}V${area.bottom}`,
          });
          plot.text(x.at(capacity) - 5, area.top + 12, "capacity", { anchor: "end" });
        },
      };
    },
  );
  chart.measure = "step";
  return chart;
}

export function frontierSection({ plan, drawn, sizes }, chart) {
  if (!drawn.length) return null;
  return section(
    "frontier",
    "Time against memory",
    element(
      "div",
      { class: "controls" },
      choice(
        "Figure",
        [
          ["step", "step time"],
          ...(drawn.some((r) => r.tokens > 0) ? [["tokens", "tokens/s/GPU"]] : []),
        ],
        "step",
        (key) => {
          chart.measure = key;
          chart.reset();
        },
      ),
      chart.whole,
    ),
    lead(
      `Every one of the ${plural(drawn.length, "simulated layout")}; strong those that are ranked or on the frontier, where no layout is both faster and smaller. Drag a box to zoom, double-click for all.`,
    ),
    chart.box,
    sizes.length > 1 ? seriesLegend(sizes.map((s) => plural(s.gpus, "GPU"))) : null,
    folded("Table of the frontier", () =>
      table(
        "The frontier",
        [["GPUs", true], ["step", true], ["memory", true], ["left", true], ["layout"]],
        plan.frontier.map((row) => [
          count(row.gpus),
          seconds(row.report.step_time_seconds),
          gib(needed(row.report)),
          gib(left(row.report)),
          layoutOf(row),
        ]),
      ),
    ),
  );
}
