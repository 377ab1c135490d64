// What the parts of a plan's page share: its rows by size, figures of a row in words.
import { count } from "./words.js";

export class Plans {
  constructor(raw) {
    this.raw = raw;
    this.plan = raw.plan;
    this.question = raw.question;
    this.sizes = raw.plan.by_gpus;
    this.winnerSize = raw.winner === null ? null : this.sizes[raw.winner];
    this.winner = this.winnerSize && this.ranked(this.winnerSize)[0];
    /** Simulated layouts of which the memory is known. */
    this.drawn = raw.rows.filter((r) => r.needed !== null && r.step > 0);
    this.feasible = this.sizes.some((s) => this.ranked(s).length);
  }
  ranked(size) {
    return this.plan.rows.filter((r) => r.gpus === size.gpus);
  }
}

export const layoutOf = (row) => row.layout + (row.settings ? ", " + row.settings : "");
/** Bytes of the fullest rank with reserve, and what it has left. */
export const needed = (report) =>
  report.memory && report.memory.peak_bytes + report.memory.reserve_bytes;
export const left = (report) => report.memory && report.memory.capacity_bytes - needed(report);
export const whole = (v) => (v === null || v === undefined ? "-" : count(Math.round(v)));
