// From values to pixels and back, and the words of axes.
import { ticks } from "./view.js";
import { count, percent, seconds } from "./words.js";

/** `at` a value is a pixel, `back` again; `ticks(most)` are round values in units of `unit`. */
export function linearScale(low, high, from, to, unit = 1) {
  const per = (to - from) / (high - low || 1);
  return {
    low,
    high,
    at: (value) => from + (value - low) * per,
    back: (pixel) => low + (pixel - from) / per,
    ticks: (most) => ticks(low / unit, high / unit, most).list.map((v) => v * unit),
  };
}

export function logScale(low, high, from, to) {
  const per = (to - from) / Math.log(high / low);
  const decades = (steps) => {
    const out = [];
    for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
      for (const step of steps)
        if (power * step >= low && power * step <= high) out.push(power * step);
    return out;
  };
  return {
    low,
    high,
    at: (value) => from + Math.log(value / low) * per,
    back: (pixel) => low * Math.exp((pixel - from) / per),
    ticks: (most) => {
      const fine = decades([1, 2, 5]),
        rough = decades([1]);
      if (fine.length < 3) return ticks(low, high, most).list;
      return fine.length <= most ? fine : rough;
    },
  };
}

const short = (value, digits = 4) => String(Number(value.toPrecision(digits)));

/** How a quantity is said in full and on an axis. */
export const quantities = {
  seconds: {
    words: seconds,
    tick: (v) => {
      const [per, unit] =
        Math.abs(v) >= 1 ? [1, "s"] : Math.abs(v) >= 1e-3 ? [1e3, "ms"] : [1e6, "us"];
      return v === 0 ? "0" : short(v * per) + " " + unit;
    },
  },
  bytes: {
    unit: 2 ** 30,
    words: (v) => (v / 2 ** 30).toFixed(1) + " GiB",
    tick: (v) => short(v / 2 ** 30) + " GiB",
  },
  share: { words: (v) => percent(v), tick: (v) => short(v * 100) + " %" },
  rate: { words: (v) => v.toFixed(1), tick: (v) => short(v) },
  whole: { words: (v) => count(Math.round(v)), tick: (v) => count(Math.round(v)) },
};

/** A range a little wider than the values; from 0 where `zero`. */
export function padded(values, zero = false, share = 0.06) {
  let low = Infinity,
    high = -Infinity;
  for (const v of values) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  if (!(high >= low)) return [0, 1];
  if (zero) return [0, high * (1 + share) || 1];
  const room = (high - low) * share || Math.abs(high) * share || 1;
  return [low - room, high + room];
}
