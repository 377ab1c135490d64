// A chart of points, lines or cells as SVG: drawn again at each width, read by pointer, keyboard and ear.
import { element, hideTip, shape, showTip } from "./element.js";
import { hues } from "./words.js";
import { sayingLine } from "./frame.js";

/** Shapes that tell series apart where colours do not (paths around 0, 0). */
const pointShapes = [
  "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0-4 0Z",
  "M-3.6-3.6H3.6V3.6H-3.6Z",
  "M0-5L5 4H-5Z",
  "M0-5.5L5.5 0L0 5.5L-5.5 0Z",
  "M0 5L5-4H-5Z",
  "M-1.6-5H1.6V-1.6H5V1.6H1.6V5H-1.6V1.6H-5V-1.6H-1.6Z",
  "M-5-2.5L-2.5-5L0-2.5L2.5-5L5-2.5L2.5 0L5 2.5L2.5 5L0 2.5L-2.5 5L-5 2.5L-2.5 0Z",
];
/** Series with a look of their own; all others share the last one. */
export const mostSeries = pointShapes.length + 1;
export const seriesColor = (i) => (i < pointShapes.length ? hues[i] : "var(--faint)");
export const seriesShape = (i) => pointShapes[i] || pointShapes[0];

/** Names of series beside their marks; `choose(i)` makes them buttons. */
export function seriesLegend(names) {
  return element(
    "ul",
    { class: "legend" },
    names.map((name, i) =>
      element(
        "li",
        {},
        shape(
          "svg",
          { class: "point", viewBox: "-7 -7 14 14", "aria-hidden": "true" },
          shape("path", { d: seriesShape(i), fill: seriesColor(i) }),
        ),
        name,
      ),
    ),
  );
}

export class Plot {
  /**
   * `draw(plot)` puts shapes in `plot.layer`, `plot.width` wide, and what can be pointed at in `plot.marks`:
   * {x, y, heading, lines}, with width and height where it is a cell, column where left and right go from one to the next, with select() where it can be chosen.
   * `zoom`: {to(box in pixels), by(factor), reset()} where the chart zooms.
   */
  constructor(label, height, draw, zoom = null) {
    this.height = height;
    this.draw = draw;
    this.zoom = zoom;
    this.marks = [];
    this.at = null;
    this.said = sayingLine();
    this.svg = shape("svg", {
      class: "plot",
      tabindex: "0",
      role: "img",
      "aria-label": label + (zoom ? " Plus and minus zoom, 0 shows all." : ""),
    });
    this.box = element("div", { class: "chart" }, this.svg, this.said);
    this.listen();
    // Only of the width: what is said below changes the height.
    new ResizeObserver(() => this.box.clientWidth !== this.width && this.paint()).observe(this.box);
  }

  paint() {
    const width = this.box.clientWidth;
    if (width < 160) return;
    this.width = width;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.svg.style.height = this.height + "px";
    this.layer = shape("g");
    this.ring = shape("g", { class: "ring", "aria-hidden": "true" });
    this.marks = [];
    this.draw(this);
    this.svg.replaceChildren(this.layer, this.ring);
    this.at = null;
  }

  add(tag, attributes, ...children) {
    const made = shape(tag, attributes, ...children);
    this.layer.append(made);
    return made;
  }
  text(x, y, words, { anchor = "middle", ...more } = {}) {
    return this.add("text", { x, y, "text-anchor": anchor, ...more }, words);
  }

  /** Grid lines and their words around {left, right, top, bottom}; names of the axes outside. */
  frame(area, x, y, { xName, yName, xTick, yTick }) {
    const { left, right, top, bottom } = area;
    for (const value of y.ticks(Math.max(2, (bottom - top) / 46))) {
      const at = y.at(value);
      this.add("path", { class: "grid", d: `M${left} ${at}H${right}` });
      this.text(left - 7, at + 4, yTick(value), { anchor: "end" });
    }
    if (x)
      for (const value of x.ticks(Math.max(2, (right - left) / 90))) {
        const at = x.at(value);
        this.add("path", { class: "grid", d: `M${at} ${top}V${bottom}` });
        this.text(at, bottom + 17, xTick(value));
      }
    this.text((left + right) / 2, bottom + 36, xName, { class: "name" });
    this.text(left - 7, top - 8, yName, {
      class: "name",
      anchor: yName.length > 9 ? "start" : "end",
    }).setAttribute("x", yName.length > 9 ? 0 : left - 7);
  }

  point(x, y, series, attributes = {}) {
    return this.add("path", {
      transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
      d: seriesShape(series),
      fill: seriesColor(series),
      class: "point",
      ...attributes,
    });
  }

  /** The mark under the pointer, or the nearest within reach. */
  find(x, y) {
    let best = null,
      least = 18;
    for (const m of this.marks) {
      const away = Math.hypot(
        m.width ? Math.max(m.x - x, 0, x - m.x - m.width) : m.x - x,
        m.width ? Math.max(m.y - y, 0, y - m.y - m.height) : m.y - y,
      );
      if (away < least) [best, least] = [m, away];
    }
    return best;
  }

  show(mark, clientX, clientY) {
    this.at = mark;
    this.ring.replaceChildren(
      mark.width
        ? shape("rect", { x: mark.x, y: mark.y, width: mark.width, height: mark.height })
        : shape("circle", { cx: mark.x, cy: mark.y, r: 8.5 }),
    );
    showTip(clientX, clientY, mark.heading, mark.lines);
  }
  leave() {
    this.at = null;
    this.ring?.replaceChildren();
    hideTip();
  }

  /** The nearest mark in a direction; along counts less than aside. In columns, one column after the other. */
  next(dx, dy) {
    const middle = (m) => [m.x + (m.width || 0) / 2, m.y + (m.height || 0) / 2];
    if (!this.at) return this.marks[0] || null;
    const [x, y] = middle(this.at);
    let best = null,
      least = Infinity;
    for (const m of this.marks) {
      if (m === this.at) continue;
      const [mx, my] = middle(m),
        along = (mx - x) * dx + (my - y) * dy,
        aside = Math.abs((mx - x) * dy) + Math.abs((my - y) * dx);
      const step = (m.column ?? 0) - (this.at.column ?? 0);
      if (m.column === undefined ? along < 0.5 : dx ? step !== dx : step !== 0 || along < 0.5)
        continue;
      const cost = m.column === undefined ? along + 2 * aside : dx ? aside : along;
      if (cost < least) [best, least] = [m, cost];
    }
    return best;
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[
      event.key
    ];
    const zoom =
      this.zoom &&
      {
        "+": () => this.zoom.by(0.5),
        "=": () => this.zoom.by(0.5),
        "-": () => this.zoom.by(2),
        0: () => this.zoom.reset(),
      }[event.key];
    if (way) {
      const mark = this.next(...way);
      if (mark) {
        const box = this.svg.getBoundingClientRect();
        this.show(mark, box.left + mark.x + (mark.width || 0), box.top + mark.y);
        this.said.replaceChildren(
          [mark.heading, ...mark.lines.filter(Boolean).map((l) => [l].flat().join(" "))].join(". "),
        );
      }
    } else if (zoom) zoom();
    else if (event.key === "Enter" && this.at?.select) this.at.select();
    else if (event.key === "Escape") this.leave();
    else return;
    event.preventDefault();
  }

  listen() {
    const { svg } = this;
    let from = null,
      brush = null;
    const place = (event) => {
      const box = svg.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const box = ([x, y]) => ({
      left: Math.min(x, from[0]),
      right: Math.max(x, from[0]),
      top: Math.min(y, from[1]),
      bottom: Math.max(y, from[1]),
    });
    svg.addEventListener("pointerdown", (event) => {
      if (!this.zoom || event.button !== 0 || event.pointerType === "touch") return;
      from = place(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const to = place(event);
      if (from) {
        const b = box(to);
        if (!brush && Math.hypot(b.right - b.left, b.bottom - b.top) < 6) return;
        this.leave();
        brush ??= this.add("rect", { class: "brush" });
        for (const [key, value] of Object.entries({
          x: b.left,
          y: b.top,
          width: b.right - b.left,
          height: b.bottom - b.top,
        }))
          brush.setAttribute(key, value);
        return;
      }
      const mark = this.find(...to);
      if (!mark) this.leave();
      else this.show(mark, event.clientX, event.clientY);
      svg.style.cursor = mark?.select ? "pointer" : this.zoom ? "crosshair" : "default";
    });
    svg.addEventListener("pointerup", (event) => {
      const to = place(event),
        drawn = brush,
        area = from && box(to);
      from = brush = null;
      drawn?.remove();
      if (drawn) this.zoom.to(area);
      else this.find(...to)?.select?.();
    });
    svg.addEventListener("pointerleave", () => from || this.leave());
    svg.addEventListener("blur", () => this.leave());
    svg.addEventListener("dblclick", () => this.zoom?.reset());
    svg.addEventListener("keydown", (event) => this.onKey(event));
  }
}
