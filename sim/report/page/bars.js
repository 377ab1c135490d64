// Where the time of every stage goes, what overlaps, what the critical path is made of: bars and their tables.
import { element, hideTip, showTip, table } from "./element.js";
import { causeWords, gib, percent, plural, seconds } from "./words.js";
import { atPeak, classWords, memoryClasses, sumOf } from "./memory.js";

/** A bar of parts: [text, share of the width, CSS colour, value in words]. */
export function bar(label, parts) {
  const made = element("div", { class: "bar", role: "img", "aria-label": label });
  for (const [text, share, background, value, hatched] of parts) {
    if (!(share > 0)) continue;
    made.append(
      element("i", {
        class: hatched ? "hatched" : null,
        style: { width: share * 100 + "%", ...(hatched ? { border: "0" } : { background }) },
        onmousemove: (event) => showTip(event.clientX, event.clientY, text, [value]),
        onmouseleave: hideTip,
      }),
    );
  }
  return made;
}

const causeVariable = (cause) => `var(--${cause.replace("exposed_", "")})`;
/** Causes that are the device's own work. */
const own = new Set(["compute"]);

function ledgerParts(ledger, step, scale, skip) {
  return Object.entries(ledger)
    .filter(([cause, share]) => share > 0 && !skip.has(cause))
    .map(([cause, share]) => [
      causeWords[cause],
      share / scale,
      causeVariable(cause),
      `${seconds(share * step)}, ${percent(share)} of the step`,
      cause === "bubble",
    ]);
}

/** One row a device; the second bar leaves compute out, so that the rest can be seen. */
export function ledgerBars(report) {
  const step = report.step_time_seconds;
  const rest = (ledger) =>
    Object.entries(ledger).reduce(
      (sum, [cause, share]) => sum + (own.has(cause) ? 0 : share || 0),
      0,
    );
  const rows = [...report.devices.map((d) => [d, d.ledger])];
  const most = Math.max(1e-12, rest(report.ledger), ...rows.map(([, ledger]) => rest(ledger)));
  const made = element(
    "div",
    { class: "bars" },
    element("span", { class: "top" }),
    element("span", { class: "top" }, "the whole step"),
    element("span", { class: "top more" }, `all but compute, ${percent(most)} of the step wide`),
  );
  const add = (name, ledger, words) => {
    const said = Object.entries(ledger)
      .filter(([, share]) => share > 0)
      .map(([cause, share]) => `${causeWords[cause]} ${percent(share)}`)
      .join(", ");
    const more = bar(words + " without compute", ledgerParts(ledger, step, most, own));
    more.classList.add("more");
    made.append(
      element("span", { class: "name" }, name),
      bar(`${words}: ${said}`, ledgerParts(ledger, step, 1, new Set())),
      more,
    );
  };
  add(
    element("b", {}, `mean of ${plural(report.counts.gpus, "rank")}`),
    report.ledger,
    "mean rank",
  );
  for (const [d, ledger] of rows)
    add(
      [element("b", {}, `stage ${d.stage}`), `, rank ${d.rank}, for ${d.represents}`],
      ledger,
      `stage ${d.stage}, rank ${d.rank}`,
    );
  return made;
}

export function ledgerLegend(report) {
  return Object.entries(report.ledger)
    .filter(([cause, share]) => share > 0 || report.devices.some((d) => d.ledger[cause] > 0))
    .map(([cause]) => [causeWords[cause], cause.replace("exposed_", ""), cause === "bubble"]);
}

export function ledgerTable(report) {
  const step = report.step_time_seconds,
    causes = Object.keys(report.ledger).filter((c) => report.devices.some((d) => d.ledger[c] > 0));
  const row = (name, ledger) => [
    name,
    ...causes.map((c) => (ledger[c] === null ? "-" : seconds(ledger[c] * step))),
  ];
  return table(
    "Ledger by device",
    [["device"], ...causes.map((c) => [causeWords[c], true])],
    [
      row("mean rank", report.ledger),
      ...report.devices.map((d) => row(`stage ${d.stage}, rank ${d.rank}`, d.ledger)),
    ],
  );
}

/** Hidden and not hidden time by class, and the efficiency that follows. */
export function overlapTable(report) {
  const rows = Object.entries(report.communication_seconds).filter(
    ([, c]) => c && (c.total > 0 || c.waiting > 0),
  );
  const most = Math.max(1e-12, ...rows.map(([, c]) => c.total));
  const efficiency = (name) => report.overlap_efficiency[name];
  return table(
    "Overlap by class of communication",
    [
      ["class"],
      ["hidden and not hidden"],
      ["bytes move", true],
      ["not hidden", true],
      ["waits for peer", true],
      ["efficiency", true],
    ],
    rows.map(([name, c]) => [
      name,
      bar(`${name}: ${percent(c.total ? c.hidden / c.total : null)} hidden`, [
        [
          "hidden",
          c.hidden / most,
          `color-mix(in srgb, var(--${name}) 35%, var(--sheet))`,
          seconds(c.hidden),
        ],
        ["not hidden", c.not_hidden / most, `var(--${name})`, seconds(c.not_hidden)],
      ]),
      seconds(c.total),
      seconds(c.not_hidden),
      seconds(c.waiting),
      percent(efficiency(name) ?? (c.total ? c.hidden / c.total : null)),
    ]),
  );
}

export function pathBar(report) {
  const variable = { embedding: "embedding", start: "faint" };
  return bar(
    "Critical path: " +
      report.critical_path
        .map((p) => `${p.kind} ${percent(p.seconds / report.step_time_seconds)}`)
        .join(", "),
    report.critical_path.map((p) => [
      p.kind,
      p.seconds / report.step_time_seconds,
      `var(--${variable[p.kind] || p.kind})`,
      `${seconds(p.seconds)}, ${percent(p.seconds / report.step_time_seconds)}`,
    ]),
  );
}
export function pathTable(report) {
  return table(
    "Critical path by kind",
    [["kind"], ["time", true], ["share", true]],
    report.critical_path.map((p) => [
      [
        element("span", {
          class: "swatch",
          style: { background: `var(--${p.kind === "start" ? "faint" : p.kind})` },
        }),
        p.kind,
      ],
      seconds(p.seconds),
      percent(p.seconds / report.step_time_seconds),
    ]),
  );
}

/** Every stage at its fullest moment, against capacity. */
export function peakBars(page) {
  const { memory, timeline } = page,
    capacity = memory.capacity_bytes;
  const most = Math.max(capacity, ...memory.rows.map((r) => sumOf(atPeak(r)) + r.reserve)) * 1.02;
  const made = element("div", {
    class: "bars",
    style: { "grid-template-columns": "max-content 1fr max-content" },
  });
  for (const r of memory.rows) {
    const d = timeline.devices.find((x) => x.device === r.device),
      peak = atPeak(r),
      sum = sumOf(peak),
      over = sum + r.reserve > capacity;
    const b = bar(`stage ${d.stage}, rank ${d.rank}: ${gib(sum)} of ${gib(capacity)}`, [
      ...memoryClasses.map(([name, variable]) => [
        classWords[name] || name,
        peak[name] / most,
        `color-mix(in srgb, var(--${variable}) 75%, var(--sheet))`,
        gib(peak[name]),
      ]),
      ["reserve of framework and communicators", r.reserve / most, "", gib(r.reserve), true],
    ]);
    b.append(
      element("i", {
        class: "mark",
        style: { left: (capacity / most) * 100 + "%", background: "var(--bad)" },
      }),
    );
    made.append(
      element("span", { class: "name" }, element("b", {}, `stage ${d.stage}`), `, rank ${d.rank}`),
      b,
      element("span", { class: over ? "red" : "" }, gib(sum)),
    );
  }
  return made;
}

export function peakTable(page) {
  return table(
    "Peak memory by class",
    [
      ["device"],
      ...memoryClasses.map(([name]) => [classWords[name] || name, true]),
      ["peak", true],
      ["reserve", true],
    ],
    page.memory.rows.map((r) => {
      const d = page.timeline.devices.find((x) => x.device === r.device),
        peak = atPeak(r);
      return [
        `stage ${d.stage}, rank ${d.rank}`,
        ...memoryClasses.map(([name]) => gib(peak[name])),
        gib(sumOf(peak)),
        gib(r.reserve),
      ];
    }),
  );
}
