// The stretch of time that all charts show, and how one moves in it.
import { color, seconds } from "./words.js";

/** Pixels left of the time axis, for row names. */
export const gutter = innerWidth < 560 ? 94 : 128;
export const axisHeight = 24;

export class TimeView {
  constructor(low, high) {
    this.full = [low, high];
    [this.low, this.high] = this.full;
    this.listeners = [];
  }
  onChange(listener) {
    this.listeners.push(listener);
  }
  set(low, high) {
    const [first, last] = this.full,
      least = (last - first) * 1e-7;
    const span = Math.min(Math.max(high - low, least), last - first);
    this.low = Math.min(Math.max(low, first), last - span);
    this.high = this.low + span;
    for (const listener of this.listeners) listener();
  }
  reset() {
    this.set(...this.full);
  }
  zoom(factor, at = (this.low + this.high) / 2) {
    this.set(at - (at - this.low) * factor, at + (this.high - at) * factor);
  }
  pan(share) {
    const span = this.high - this.low;
    this.set(this.low + share * span, this.high + share * span);
  }
  /** Into sight, a little apart from the edge. */
  reveal(low, high) {
    const span = this.high - this.low;
    if (low < this.low) this.set(low - span * 0.1, low + span * 0.9);
    else if (high > this.high) this.set(high - span * 0.9, high + span * 0.1);
  }
  /** Pixels from time and back on a chart of that width. */
  scale(width) {
    const per = (width - gutter - 6) / (this.high - this.low);
    return {
      x: (t) => gutter + (t - this.low) * per,
      t: (x) => this.low + (x - gutter) / per,
      per,
    };
  }
  get whole() {
    return this.low <= this.full[0] && this.high >= this.full[1];
  }
}

/** Round times, as many as fit. */
export function ticks(low, high, most) {
  const rough = (high - low) / Math.max(1, most),
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  const out = [];
  for (let k = Math.ceil(low / step); k * step <= high; ++k) out.push(k * step);
  return { list: out, step };
}

function tickWords(t, step) {
  const [unit, name] = step >= 1 ? [1, "s"] : step >= 1e-3 ? [1e3, "ms"] : [1e6, "us"];
  const places = Math.max(0, -Math.floor(Math.log10(step * unit) + 1e-9));
  return (t * unit).toFixed(places) + " " + name;
}

export function drawAxis(g, view, width, top, bottom) {
  const { x } = view.scale(width),
    { list, step } = ticks(view.low, view.high, (width - gutter) / 110);
  g.strokeStyle = color("line");
  g.fillStyle = color("soft");
  g.lineWidth = 1;
  for (const t of list) {
    const at = Math.round(x(t)) + 0.5;
    g.beginPath();
    g.moveTo(at, top);
    g.lineTo(at, bottom + 5);
    g.stroke();
    g.textAlign = at > width - 40 ? "right" : at < gutter + 30 ? "left" : "center";
    g.fillText(tickWords(t, step), at, bottom + 14);
  }
  g.textAlign = "left";
}

/** Where the view is in the step: a slim strip above a chart. */
export function drawWhere(g, view, width) {
  const [first, last] = view.full,
    space = width - gutter - 6;
  g.fillStyle = color("line");
  g.fillRect(gutter, 2, space, 4);
  g.fillStyle = color("accent");
  const from = ((view.low - first) / (last - first)) * space,
    length = ((view.high - view.low) / (last - first)) * space;
  g.fillRect(gutter + from, 2, Math.max(3, length), 4);
}

/**
 * Mouse: drag to zoom into a stretch, Shift+drag or a sideways wheel to move, Ctrl+wheel to zoom, double click for the
 * whole step. Keys: + - 0, Shift+arrows; `keys` sees the others first. `hover(x, y, event)`, `leave()`, `click(x, y)`.
 */
export function interact(chart, view, { hover, leave, click, keys }) {
  const canvas = chart.canvas;
  let drag = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  chart.brush = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    const [x, y] = place(event);
    drag = { x, y, low: view.low, high: view.high, move: event.shiftKey, far: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!drag) return hover(x, y, event);
    drag.far = drag.far || Math.abs(x - drag.x) > 4;
    if (!drag.far) return;
    leave();
    const { per, t } = view.scale(chart.width);
    if (drag.move) view.set(drag.low - (x - drag.x) / per, drag.high - (x - drag.x) / per);
    else chart.brush = [Math.min(t(drag.x), t(x)), Math.max(t(drag.x), t(x))];
    chart.refresh();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const was = drag,
      [x, y] = place(event);
    drag = null;
    const brush = chart.brush;
    chart.brush = null;
    if (!was.far) return click(x, y, event);
    if (!was.move && brush) view.set(...brush);
    chart.refresh();
  });
  canvas.addEventListener("pointerleave", () => leave());
  canvas.addEventListener("dblclick", () => view.reset());
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        view.zoom(Math.exp(event.deltaY * 0.004), view.scale(chart.width).t(place(event)[0]));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        view.pan((event.deltaX || event.deltaY) / chart.width);
      }
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const own = {
      "+": () => view.zoom(0.5),
      "=": () => view.zoom(0.5),
      "-": () => view.zoom(2),
      0: () => view.reset(),
      ...(event.shiftKey
        ? { ArrowLeft: () => view.pan(-0.25), ArrowRight: () => view.pan(0.25) }
        : {}),
    }[event.key];
    if (own) own();
    else if (!keys || !keys(event)) return;
    event.preventDefault();
  });
}

export function drawBrush(g, chart, view, width, height) {
  if (!chart.brush) return;
  const { x } = view.scale(width),
    [a, b] = chart.brush;
  g.globalAlpha = 0.16;
  g.fillStyle = color("accent");
  g.fillRect(x(a), 8, x(b) - x(a), height - 8);
  g.globalAlpha = 1;
  g.fillStyle = color("ink");
  g.textAlign = "center";
  g.fillText(seconds(b - a), (x(a) + x(b)) / 2, 16);
  g.textAlign = "left";
}

let patterns = new Map();
export function clearPatterns() {
  patterns = new Map();
}
/** Diagonal lines of a colour. */
export function hatch(g, line) {
  if (!patterns.has(line)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const t = tile.getContext("2d");
    t.strokeStyle = line;
    t.lineWidth = 1.2;
    t.beginPath();
    for (const shift of [-8, 0, 8]) {
      t.moveTo(shift, 8);
      t.lineTo(shift + 8, 0);
    }
    t.stroke();
    patterns.set(line, g.createPattern(tile, "repeat"));
  }
  return patterns.get(line);
}
