// Bytes of one device over time, by class, against its capacity; and the peak of every stage.
import { Canvas, element, hideTip, showTip } from "./element.js";
import { firstAbove } from "./data.js";
import { color, gib, mix, seconds } from "./words.js";
import { axisHeight, drawAxis, drawBrush, drawWhere, gutter, hatch, interact } from "./view.js";
import { rowName } from "./block_words.js";

/** From the bottom up; what stays comes first. */
export const memoryClasses = [
  ["parameters", "compute"],
  ["gradients", "contention"],
  ["optimizer", "optimizer"],
  ["buffers", "host"],
  ["working", "skew"],
  ["activations", "forward"],
  ["logits", "backward"],
];
export const classWords = { working: "working memory of a layer" };

const memoryTop = 14;

/** Bytes by class of a device at its fullest moment. */
export function atPeak(row) {
  return {
    parameters: row.parameters,
    gradients: row.gradients,
    optimizer: row.optimizer,
    buffers: row.buffers,
    working: row.working,
    activations: row.activations[row.peak],
    logits: row.logits[row.peak],
  };
}
export const sumOf = (classes) => Object.values(classes).reduce((a, b) => a + b, 0);

export class MemoryChart {
  constructor(page, view) {
    this.page = page;
    this.view = view;
    this.chart = new Canvas(
      "Memory of one device over time, by class, under its capacity. A table follows.",
      240,
      (g, w, h) => this.draw(g, w, h),
    );
    view.onChange(() => this.chart.refresh());
    interact(this.chart, view, {
      hover: (x, y, event) => this.onHover(x, event),
      leave: hideTip,
      click: () => {},
    });
    this.box = element("div", { class: "chart" }, this.chart.canvas);
    this.show(0);
  }
  show(index) {
    this.device = this.page.timeline.devices[index];
    this.row = this.page.memory.rows.find((r) => r.device === this.device.device);
    this.chart.refresh();
  }

  draw(g, width, height) {
    const { view, row } = this,
      { capacity_bytes: capacity } = this.page.memory,
      scale = view.scale(width),
      bottom = height - axisHeight;
    const most = Math.max(capacity, sumOf(atPeak(row)) + row.reserve) * 1.06,
      y = (bytes) => bottom - (bytes / most) * (bottom - memoryTop);
    drawAxis(g, view, width, memoryTop, bottom);
    if (!view.whole) drawWhere(g, view, width);
    g.fillStyle = color("soft");
    g.textAlign = "right";
    const step = [1, 2, 4, 5, 10, 20, 40, 50, 100, 200].find((s) => most / 2 ** 30 / s <= 6) || 400;
    for (let v = 0; v * 2 ** 30 < most; v += step) {
      g.fillText(v + " GiB", gutter - 8, y(v * 2 ** 30));
      g.strokeStyle = color("line");
      g.beginPath();
      g.moveTo(gutter, Math.round(y(v * 2 ** 30)) + 0.5);
      g.lineTo(width, Math.round(y(v * 2 ** 30)) + 0.5);
      g.stroke();
    }
    g.textAlign = "left";
    g.save();
    g.beginPath();
    g.rect(gutter, 0, width - gutter - 6, bottom);
    g.clip();
    const x0 = scale.x(0),
      x1 = scale.x(view.full[1]);
    let base = 0;
    for (const [name, variable] of memoryClasses.slice(0, 5)) {
      g.fillStyle = mix(color(variable), color("sheet"), 0.75);
      g.fillRect(x0, y(base + row[name]), x1 - x0, y(base) - y(base + row[name]));
      base += row[name];
    }
    const lower = row.time.map(() => base);
    for (const [list, variable] of [
      [row.activations, "forward"],
      [row.logits, "backward"],
    ]) {
      const upper = lower.map((v, i) => v + list[i]);
      g.fillStyle = mix(color(variable), color("sheet"), 0.75);
      g.beginPath();
      this.staircase(g, scale, y, upper, x1, false);
      this.staircase(g, scale, y, lower, x1, true);
      g.closePath();
      g.fill();
      for (let i = 0; i < lower.length; ++i) lower[i] = upper[i];
    }
    g.strokeStyle = color("bad");
    g.lineWidth = 1.5;
    g.beginPath();
    g.moveTo(gutter, y(capacity));
    g.lineTo(width, y(capacity));
    g.stroke();
    g.fillStyle = hatch(g, color("hatch"));
    g.fillRect(gutter, y(capacity), width, y(capacity - row.reserve) - y(capacity));
    g.lineWidth = 1;
    g.restore();
    g.fillStyle = color("bad");
    g.fillText("capacity " + gib(capacity), gutter + 6, y(capacity) - 8);
    drawBrush(g, this.chart, view, width, bottom);
  }
  staircase(g, scale, y, levels, x1, backwards) {
    const { time } = this.row,
      n = levels.length,
      ends = (i) => (i + 1 < n ? scale.x(time[i + 1]) : x1);
    if (!backwards) {
      for (let i = 0; i < n; ++i) {
        if (i === 0) g.moveTo(scale.x(time[0]), y(levels[0]));
        else g.lineTo(scale.x(time[i]), y(levels[i]));
        g.lineTo(ends(i), y(levels[i]));
      }
      return;
    }
    for (let i = n - 1; i >= 0; --i) {
      g.lineTo(ends(i), y(levels[i]));
      g.lineTo(scale.x(time[i]), y(levels[i]));
    }
  }

  onHover(x, event) {
    if (x < gutter) return hideTip();
    const t = this.view.scale(this.chart.width).t(x),
      i = Math.max(0, firstAbove(this.row.time, t) - 1),
      row = this.row;
    const now = { ...atPeak(row), activations: row.activations[i], logits: row.logits[i] };
    showTip(event.clientX, event.clientY, seconds(t), [
      ["on", rowName(this.device)],
      ...memoryClasses
        .filter(([name]) => now[name] > 0)
        .map(([name]) => [classWords[name] || name, gib(now[name])])
        .reverse(),
      ["sum", gib(sumOf(now))],
      [
        "free under capacity less reserve",
        gib(this.page.memory.capacity_bytes - row.reserve - sumOf(now)),
      ],
    ]);
  }
}
