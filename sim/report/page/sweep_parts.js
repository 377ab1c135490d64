// What a sweep's charts and tables share: its quantities, the places of its rows, words for points.
import { quantities } from "./scales.js";

/** Quantities that can be looked at; `sense` is -1 where less is better. */
const metrics = [
  { key: "step", name: "step time", quantity: quantities.seconds, sense: -1 },
  { key: "tokens", name: "tokens/s/GPU", quantity: quantities.rate, sense: 1 },
  { key: "mfu", name: "MFU", quantity: quantities.share, sense: 1 },
  { key: "needed", name: "memory", quantity: quantities.bytes, sense: -1 },
  { key: "bubble", name: "bubble", quantity: quantities.share, sense: -1 },
  { key: "overlap", name: "overlap", quantity: quantities.share, sense: 1 },
];

export const cut = (text, most) => (text.length > most ? text.slice(0, most - 2) + ".." : text);

export class SweepRows {
  constructor({ axes, rows, aim, best }) {
    this.axes = axes;
    this.rows = rows;
    this.best = best;
    this.metrics = metrics.filter((m) => rows.some((r) => Number.isFinite(r[m.key])));
    this.aim = metrics.find((m) => m.key === aim);
    this.strides = axes.map((_, i) => axes.slice(i + 1).reduce((n, a) => n * a.points.length, 1));
  }
  /** Which point of an axis a row has. */
  index(row, axis) {
    return Math.floor(row / this.strides[axis]) % this.axes[axis].points.length;
  }
  /** "TP=4 PP=2", or only of some axes. */
  name(row, axes = this.axes.map((_, i) => i)) {
    return axes
      .map((a) => `${this.axes[a].name}=${this.axes[a].points[this.index(row, a)]}`)
      .join(" ");
  }
  better(a, b) {
    return this.aim.sense * (this.rows[a][this.aim.key] - this.rows[b][this.aim.key]) > 0;
  }
  /** By place on two axes (`down` may be -1): the best row that runs and fits, else the first. */
  places(across, down) {
    const columns = this.axes[across].points.length,
      lines = down < 0 ? 1 : this.axes[down].points.length;
    const found = Array.from({ length: lines }, () => new Array(columns).fill(null));
    this.rows.forEach((row, i) => {
      const line = found[down < 0 ? 0 : this.index(i, down)],
        c = this.index(i, across),
        held = line[c];
      const replaces =
        held === null || (row.feasible && (!this.rows[held].feasible || this.better(i, held)));
      if (replaces) line[c] = i;
    });
    return found;
  }
  /** A heading and lines for a tip. */
  describe(i) {
    const row = this.rows[i];
    const lines = this.metrics
      .filter((m) => Number.isFinite(row[m.key]))
      .map((m) => [m.name, m.quantity.words(row[m.key])]);
    if (row.high > row.low * (1 + 1e-9))
      lines.splice(1, 0, [
        "80 % of cases",
        `${quantities.seconds.words(row.low)} to ${quantities.seconds.words(row.high)}`,
      ]);
    lines.push(row.feasible ? ["most beside compute", row.why] : row.why);
    if (i === this.best) lines.push("The best of those that fit.");
    return [cut(this.name(i), 200), lines];
  }
}
