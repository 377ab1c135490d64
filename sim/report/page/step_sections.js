// Sections of a step's page that its report alone fills: ledger, overlap, critical path, settings;
// and what all drawings of a pipeline have beside them.
import { choice, element, folded, legend, section, table } from "./element.js";
import { rowName } from "./block_words.js";
import { plural } from "./words.js";
import { wide } from "./frame.js";
import { ledgerBars, ledgerLegend, ledgerTable, overlapTable, pathBar, pathTable } from "./bars.js";

export function ledgerSection(report) {
  const bars = ledgerBars(report);
  return section(
    "ledger",
    "Where the step goes",
    null,
    element(
      "p",
      { class: "lead" },
      "Every instant of every device has exactly one cause; each bar adds up to the step. Exposed is communication that nothing hides.",
    ),
    element(
      "div",
      {
        class: report.devices.length > 24 ? "many" : "",
        tabindex: report.devices.length > 24 ? "0" : null,
      },
      bars,
    ),
    legend(ledgerLegend(report)),
    folded("Table", () => ledgerTable(report)),
  );
}

export function overlapSection(report) {
  const any = Object.values(report.communication_seconds).some(
    (c) => c && (c.total > 0 || c.waiting > 0),
  );
  return section(
    "overlap",
    "Overlap",
    null,
    element(
      "p",
      { class: "lead" },
      any
        ? "Of the time in which bytes move, what runs under compute (pale) and what does not (strong); mean rank. Waiting for a peer moves nothing and is counted apart."
        : "Nothing is communicated in this step.",
    ),
    any ? wide(overlapTable(report)) : null,
  );
}

export function pathSection(report) {
  return section(
    "path",
    "Critical path",
    null,
    element(
      "p",
      { class: "lead" },
      "The chain of tasks that sets the step, by kind: shortening anything else changes nothing at first.",
    ),
    pathBar(report),
    wide(pathTable(report)),
  );
}

export function settingsSection(report, title) {
  const effective = Object.entries(report.effective);
  return section(
    "settings",
    "Settings",
    null,
    element(
      "p",
      { class: "lead" },
      [title.description, title.source ? "Source: " + title.source : ""]
        .filter(Boolean)
        .join(" ") || "What the step was simulated from.",
    ),
    effective.length
      ? folded(`In effect (${effective.length})`, () =>
          table(
            "Settings in effect",
            [["key"], ["value"]],
            effective.map(([key, value]) => [
              element("code", {}, key),
              element("code", {}, JSON.stringify(value)),
            ]),
          ),
        )
      : null,
    folded("Scenario", () => element("pre", {}, JSON.stringify(report.scenario, null, 2))),
    folded("Report (stepsim.report/1)", () =>
      element(
        "pre",
        {},
        JSON.stringify({ ...report, scenario: "above", effective: "above" }, null, 2),
      ),
    ),
  );
}

/** What the colours of blocks tell; `choose` gets "pass" or "microbatch". */
export function colourChoice(by, choose) {
  return choice(
    "Colour",
    [
      ["pass", "by pass"],
      ["microbatch", "by microbatch"],
    ],
    by,
    choose,
  );
}

/** The blocks of the device that is selected in a PipelineChart. */
export function blocksTable(timeline, pipeline) {
  return folded("Table of blocks", () => {
    const device = timeline.devices[pipeline.selected];
    return [
      element(
        "p",
        {},
        `${rowName(device)}: ${plural(device.blocks.count, "block")} in the order in which they run`,
      ),
      table(
        "Blocks of " + rowName(device),
        [["action"], ["what"], ["starts", true], ["takes", true], ["waited"]],
        pipeline.words.rows(device).slice(0, 2000),
      ),
    ];
  });
}
