// A sweep as lines or as a heat map: the best marked, what cannot be visible with its reason.
import { linearScale, padded } from "./scales.js";
import { mostSeries, Plot, seriesColor } from "./plot.js";
import { cut } from "./sweep_parts.js";

const cross = "M-4-4L4 4M-4 4L4-4";

/** `state`: {metric, across, down, zero}; it is read whenever the chart is drawn. */
export function lineChart(sweep, state) {
  return new Plot(
    "Lines: one swept key across, the chosen figure up. Arrow keys go from point to point.",
    400,
    (plot) => {
      const { metric, across, down } = state,
        axis = sweep.axes[across];
      const lines = sweep.places(across, down);
      const known = (i) => Number.isFinite(sweep.rows[i][metric.key]);
      const values = lines
        .flat()
        .filter(known)
        .map((i) => sweep.rows[i][metric.key]);
      const area = { left: 74, right: plot.width - 16, top: 30, bottom: plot.height - 66 };
      const [low, high] = padded(values, state.zero);
      const y = linearScale(low, high, area.bottom, area.top, metric.quantity.unit);
      const step = (area.right - area.left) / axis.points.length,
        x = (c) => area.left + step * (c + 0.5);
      plot.frame(area, null, y, {
        xName: cut(axis.name, 60),
        yName: metric.name,
        yTick: metric.quantity.tick,
      });
      const longest = Math.max(...axis.points.map((p) => Math.min(18, p.length)));
      const every = Math.ceil((7 * longest + 12) / step);
      axis.points.forEach((p, c) => {
        if (c % every === 0) plot.text(x(c), area.bottom + 17, cut(p, 18));
      });
      lines.forEach((line, series) => {
        const look = Math.min(series, mostSeries - 1);
        let path = "",
          drawing = false;
        line.forEach((i, c) => {
          const on = sweep.rows[i].feasible && known(i);
          if (on)
            path += `${drawing ? "L" : "M"}${x(c).toFixed(1)} ${y.at(sweep.rows[i][metric.key]).toFixed(1)}`;
          drawing = on;
        });
        plot.add("path", { class: "line", d: path, stroke: seriesColor(look) });
        line.forEach((i, c) => {
          const row = sweep.rows[i],
            [heading, words] = sweep.describe(i);
          // What has no figure stands on the axis, one series beside the other.
          const aside =
            lines.length > 1
              ? (series - (lines.length - 1) / 2) * Math.min(12, (step - 6) / lines.length)
              : 0;
          const at = known(i) ? [x(c), y.at(row[metric.key])] : [x(c) + aside, area.bottom - 9];
          plot.marks.push({ x: at[0], y: at[1], column: c, heading, lines: words });
          if (row.feasible && known(i)) {
            if (i === sweep.best) plot.add("circle", { class: "best", cx: at[0], cy: at[1], r: 9 });
            plot.point(...at, look);
          } else {
            const move = `translate(${at[0].toFixed(1)} ${at[1].toFixed(1)})`;
            if (known(i)) plot.point(...at, look, { opacity: 0.25 });
            plot.add("path", { class: "cross", d: cross, transform: move });
          }
        });
      });
    },
  );
}

export function heatMap(sweep, state) {
  const cell = 38,
    top = 52;
  const plot = new Plot(
    "Heat map of two swept keys; the stronger the colour, the better. Arrow keys go from cell to cell.",
    100,
    (p) => {
      const { metric, across, down } = state,
        columns = sweep.axes[across],
        rows = sweep.axes[down];
      const lines = sweep.places(across, down);
      const shown = (i) => sweep.rows[i].feasible && Number.isFinite(sweep.rows[i][metric.key]);
      const values = lines
        .flat()
        .filter(shown)
        .map((i) => sweep.rows[i][metric.key]);
      const low = Math.min(...values),
        high = Math.max(...values);
      const left = 20 + 7 * Math.max(4, ...rows.points.map((v) => Math.min(18, v.length)));
      const wide = Math.min(200, (p.width - left - 4) / columns.points.length);
      p.text(left, 14, cut(`${columns.name} across, ${rows.name} down`, 90), {
        anchor: "start",
        class: "name",
      });
      const every = Math.ceil(
        (7 * Math.max(...columns.points.map((v) => Math.min(18, v.length))) + 8) / wide,
      );
      columns.points.forEach((v, c) => {
        if (c % every === 0) p.text(left + wide * (c + 0.5), top - 12, cut(v, 18));
      });
      lines.forEach((line, r) => {
        const y = top + r * cell;
        p.text(left - 8, y + cell / 2 + 4, cut(rows.points[r], 18), { anchor: "end" });
        line.forEach((i, c) => {
          const row = sweep.rows[i],
            x = left + c * wide,
            box = { x: x + 1, y: y + 1, width: wide - 2, height: cell - 2 };
          const value = row[metric.key],
            on = shown(i);
          const good =
            high > low ? (metric.sense < 0 ? high - value : value - low) / (high - low) : 1;
          const share = 10 + 78 * good;
          p.add("rect", {
            ...box,
            rx: 3,
            class: on ? "" : "none",
            style: on
              ? { fill: `color-mix(in srgb, var(--accent) ${share.toFixed(0)}%, var(--sheet))` }
              : {},
          });
          if (i === sweep.best) p.add("rect", { ...box, rx: 3, class: "best" });
          const said = on
            ? metric.quantity.tick(value)
            : wide > 86
              ? row.done
                ? row.step
                  ? "does not fit"
                  : "cannot run"
                : "not run"
              : "x";
          if (!on || wide > 7 * said.length)
            p.text(x + wide / 2, y + cell / 2 + 4, said, {
              style: { fill: on ? (share > 52 ? "var(--paper)" : "var(--ink)") : "var(--bad)" },
            });
          const [heading, words] = sweep.describe(i);
          p.marks.push({ ...box, heading, lines: words });
        });
      });
    },
  );
  plot.fit = () => {
    plot.height = top + cell * sweep.axes[state.down].points.length + 6;
  };
  return plot;
}
