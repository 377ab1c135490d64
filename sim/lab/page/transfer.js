// Files in and out: a scenario that is read or saved, the command line that says the same.
import { element } from "./element.js";

const mostBytes = 1 << 20; // more is no scenario, and would not fit into a URL

/** A button that opens a file; `read(name, text)`, or `refuse(message)`. */
export function importButton(read, refuse) {
  const input = element("input", {
    type: "file",
    accept: ".json,application/json",
    hidden: true,
    "aria-label": "Scenario file",
    onchange: async () => {
      const [file] = input.files;
      input.value = "";
      if (!file) return;
      if (file.size > mostBytes)
        return refuse(`${file.name}: larger than 1 MiB, which no scenario is`);
      read(file.name, await file.text());
    },
  });
  return [
    element(
      "button",
      { type: "button", title: "Open a scenario file (JSON)", onclick: () => input.click() },
      "Open ...",
    ),
    input,
  ];
}

export function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** The scenario as one file, and the system beside it where its links are turned. */
export function filesOf(document, turned) {
  const made = structuredClone(document);
  delete made.base;
  if (turned) made.cluster.system = "./" + turned.name;
  const files = [["scenario.json", JSON.stringify(made, null, 2) + "\n"]];
  if (turned) files.push([turned.name, turned.text]);
  return files;
}

const plain = /^[\w.,:=+~/@%-]+$/;
const quoted = (word) => (plain.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'");

/** What to type for the same step. */
export function commandLine(begin, words, turned) {
  const all = ["stepsim", ...begin, ...words];
  if (turned) all.push("cluster.system=" + turned.name);
  return all.map(quoted).join(" ");
}
