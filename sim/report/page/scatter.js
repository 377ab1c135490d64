// Points on two axes that zoom: drag a box, double-click for all.
import { element } from "./element.js";
import { linearScale, logScale, padded } from "./scales.js";
import { Plot } from "./plot.js";

export class Scatter {
  /**
   * `read()` gives what is drawn: {points, x, y, lines, under}. A point: {x, y, series, heading, lines, [low, high],
   * [ring], [faint], [select]}; an axis: {name, tick, [log], [range], [unit]}; `lines`: paths of points {points, [class]};
   * `under(plot, x, y, area)` draws what lies below.
   */
  constructor(label, height, read) {
    this.read = read;
    this.window = null;
    this.plot = new Plot(label, height, (plot) => this.draw(plot), {
      to: (box) => this.zoomTo(box),
      by: (factor) => this.zoomBy(factor),
      reset: () => this.reset(),
    });
    this.box = this.plot.box;
    this.whole = element(
      "button",
      { type: "button", disabled: true, onclick: () => this.reset() },
      "Show all",
    );
  }
  reset() {
    this.window = null;
    this.paint();
  }
  paint() {
    this.whole.disabled = this.window === null;
    this.plot.paint();
  }
  zoomTo({ left, right, top, bottom }) {
    const { x, y } = this.scales;
    this.window = { x: [x.back(left), x.back(right)], y: [y.back(bottom), y.back(top)] };
    this.paint();
  }
  zoomBy(factor) {
    const { x, y } = this.scales,
      { left, right, top, bottom } = this.area;
    const at = this.plot.at || { x: (left + right) / 2, y: (top + bottom) / 2 };
    this.zoomTo({
      left: at.x - (at.x - left) * factor,
      right: at.x + (right - at.x) * factor,
      top: at.y - (at.y - top) * factor,
      bottom: at.y + (bottom - at.y) * factor,
      x,
      y,
    });
  }

  draw(plot) {
    const { points, x: xAxis, y: yAxis, lines = [], under } = this.read();
    const area = { left: 74, right: plot.width - 16, top: 30, bottom: plot.height - 46 };
    const range = (axis, key) => {
      if (this.window) return this.window[key];
      if (axis.range) return axis.range;
      const values = points.flatMap((p) =>
        key === "y" && p.low > 0 ? [p.low, p.high, p.y] : [p[key]],
      );
      if (!axis.log) return padded(values);
      return [Math.min(...values) / 1.2, Math.max(...values) * 1.2];
    };
    const scale = (axis, key, from, to) =>
      (axis.log ? logScale : linearScale)(...range(axis, key), from, to, axis.unit);
    const x = scale(xAxis, "x", area.left, area.right),
      y = scale(yAxis, "y", area.bottom, area.top);
    this.scales = { x, y };
    this.area = area;
    plot.frame(area, x, y, {
      xName: xAxis.name,
      yName: yAxis.name,
      xTick: xAxis.tick,
      yTick: yAxis.tick,
    });
    const inside = (px, py) =>
      px >= area.left - 1 && px <= area.right + 1 && py >= area.top - 1 && py <= area.bottom + 1;
    const clip = plot.add("svg", {
      x: area.left,
      y: area.top,
      width: area.right - area.left,
      height: area.bottom - area.top,
      viewBox: `${area.left} ${area.top} ${area.right - area.left} ${area.bottom - area.top}`,
    });
    // What is drawn from here on ends at the frame.
    const outer = plot.layer;
    plot.layer = clip;
    under?.(plot, x, y, area);
    for (const line of lines)
      plot.add("path", {
        class: "line " + (line.class || ""),
        d: line.points.map((p, i) => `${i ? "L" : "M"}${x.at(p.x)} ${y.at(p.y)}`).join(""),
      });
    for (const p of points) {
      const px = x.at(p.x),
        py = y.at(p.y);
      if (!inside(px, py)) continue;
      if (p.low > 0)
        plot.add("path", { class: "spread", d: `M${px} ${y.at(p.low)}V${y.at(p.high)}` });
      if (p.ring) plot.add("circle", { class: "best", cx: px, cy: py, r: 9 });
      plot.point(px, py, p.series, p.faint ? { opacity: 0.3 } : {});
      plot.marks.push({ x: px, y: py, heading: p.heading, lines: p.lines, select: p.select });
    }
    plot.layer = outer;
  }
}
