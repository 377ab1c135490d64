// How figures and causes are said: units, decimals, plain words, colours.

const decimals = (value) => (value >= 100 ? 1 : value >= 10 ? 2 : 3);

/** 13.991 s, 812.345 ms, 812.3 us. */
export function seconds(value) {
  if (value === null || value === undefined) return "-";
  const size = Math.abs(value);
  if (size >= 1) return value.toFixed(3) + " s";
  if (size >= 1e-3) return (value * 1e3).toFixed(decimals(size * 1e3)) + " ms";
  if (size >= 1e-6) return (value * 1e6).toFixed(decimals(size * 1e6)) + " us";
  return size === 0 ? "0" : (value * 1e9).toFixed(1) + " ns";
}

/** +1.338 s, -20.0 ms. */
export const signedSeconds = (value) =>
  value === null || value === undefined
    ? "-"
    : (value > 0 ? "+" : value < 0 ? "-" : "") + seconds(Math.abs(value));

/** +9.5 %. */
export const signedPercent = (fraction, places = 1) =>
  fraction === null || fraction === undefined
    ? "-"
    : (fraction > 0 ? "+" : "") + (fraction * 100).toFixed(places) + " %";

export function percent(fraction, places = 1) {
  return fraction === null || fraction === undefined
    ? "-"
    : (fraction * 100).toFixed(places) + " %";
}

export const gib = (bytes) => (bytes / 2 ** 30).toFixed(1) + " GiB";

/** A whole number with thin groups: 1,024. */
export const count = (value) => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

export const plural = (value, noun) =>
  count(value) + " " + noun + (value === 1 ? "" : noun.endsWith("ch") ? "es" : "s");

export const causeWords = {
  compute: "compute",
  contention: "contention",
  optimizer: "optimizer",
  host: "host",
  bubble: "pipeline bubble",
  skew: "skew (slower peer, faults)",
  exposed_tp: "exposed tp",
  exposed_cp: "exposed cp",
  exposed_pp: "exposed pp",
  exposed_dp: "exposed dp",
  exposed_embedding: "exposed embedding",
  exposed_ep: "exposed ep",
  exposed_edp: "exposed edp",
  exposed_offload: "exposed offload",
};

export const kindWords = {
  forward: "forward",
  backward: "backward",
  backward_input: "backward, input half",
  backward_weight: "backward, weight half",
  step: "optimizer and copies",
};

/** One letter as schedules are written: F, B, I, W; O for what belongs to no microbatch. */
export const kindLetters = {
  forward: "F",
  backward: "B",
  backward_input: "I",
  backward_weight: "W",
  step: "O",
};

const kindVariables = {
  forward: "forward",
  backward: "backward",
  backward_input: "input",
  backward_weight: "weight",
  step: "step",
};

let palette = new Map();
/** Colours follow the theme: call again when it changes. */
export function readPalette() {
  palette = new Map();
}
export function color(variable) {
  if (!palette.has(variable))
    palette.set(
      variable,
      getComputedStyle(document.documentElement)
        .getPropertyValue("--" + variable)
        .trim() || "#888888",
    );
  return palette.get(variable);
}
export const kindColor = (kind) => color(kindVariables[kind]);
export const causeColor = (cause) => color(cause.replace("exposed_", ""));

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
/** `share` of a, the rest of b; both #rrggbb. */
export function mix(a, b, share) {
  const [x, y] = [channels(a), channels(b)];
  return (
    "#" +
    x
      .map((v, i) =>
        Math.round(v * share + y[i] * (1 - share))
          .toString(16)
          .padStart(2, "0"),
      )
      .join("")
  );
}
/** White or black, whichever is read better on a colour (WCAG relative luminance). */
export function inkOn(hex) {
  const [r, g, b] = channels(hex).map((v) =>
    (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.3 ? "#15181d" : "#ffffff";
}
/** Eight hues that stay apart for colour-blind readers (after Okabe and Ito 2008), by microbatch. */
export const hues = [
  "#0072b2",
  "#e69f00",
  "#009e73",
  "#cc79a7",
  "#56b4e9",
  "#d55e00",
  "#b8a800",
  "#6a5acd",
];
