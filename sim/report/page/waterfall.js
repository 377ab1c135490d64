// From one step's time to another's, part by part.
import { element } from "./element.js";
import { seconds, signedSeconds } from "./words.js";

/** The largest parts, and all others as one. Parts: [name, seconds]. */
function largest(parts, most) {
  const moved = parts.filter(([, s]) => s !== 0).sort((x, y) => Math.abs(y[1]) - Math.abs(x[1]));
  if (moved.length <= most) return moved;
  const rest = moved.slice(most);
  return [...moved.slice(0, most), [`${rest.length} more`, rest.reduce((sum, r) => sum + r[1], 0)]];
}

/** Bars from `from` over each part to `to`; `ends` names the two. The axis holds what moves. */
export function waterfall(label, from, to, parts, { ends = ["A", "B"], most = 12 } = {}) {
  const falls = largest(parts, most);
  let low = Math.min(from, to),
    high = Math.max(from, to),
    at = from;
  for (const [, s] of falls) {
    at += s;
    low = Math.min(low, at);
    high = Math.max(high, at);
  }
  const span = Math.max(high - low, 1e-12),
    origin = Math.max(0, low - 0.12 * span),
    x = (s) => ((s - origin) / (high - origin)) * 100;
  const made = element("div", { class: "fall", role: "table", "aria-label": label });
  const row = (name, begin, end, kind, value) =>
    made.append(
      element(
        "div",
        { role: "row" },
        element("span", { class: "name", role: "rowheader", title: name }, name),
        element(
          "span",
          { class: "track", role: "presentation" },
          element("i", {
            class: kind,
            style: {
              left: Math.min(x(begin), x(end)) + "%",
              width: Math.max(Math.abs(x(end) - x(begin)), 0.15) + "%",
            },
          }),
        ),
        element("span", { class: "amount", role: "cell" }, value),
      ),
    );
  row(ends[0], origin, from, "end", seconds(from));
  at = from;
  for (const [name, s] of falls) {
    row(name, at, at + s, s > 0 ? "more" : "less", signedSeconds(s));
    at += s;
  }
  row(ends[1], origin, to, "end", seconds(to));
  return element(
    "div",
    {},
    made,
    origin > 0
      ? element("p", { class: "note" }, `The bars begin at ${seconds(origin)}, not at 0.`)
      : null,
  );
}

/** Seconds of each cause of a report's mean rank. */
export const causeSeconds = (report) =>
  Object.fromEntries(
    Object.entries(report.ledger).map(([cause, share]) => [
      cause,
      (share || 0) * report.step_time_seconds,
    ]),
  );
