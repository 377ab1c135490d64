// Puts the lab into one file: node assemble.mjs SOURCES BUILD writes BUILD/lab.html.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const [sources, build] = process.argv.slice(2);
const text = (...path) => readFileSync(join(...path), "utf8");
const packed = (bytes) => gzipSync(bytes, { level: 9 }).toString("base64");

/** What a scenario can name. The schema files are part of the engine. */
const files = {};
for (const folder of [
  "models",
  "hardware",
  "hardware/gpus",
  "hardware/measurements",
  "scenarios",
  "scenarios/recipes",
  "scenarios/lessons",
])
  for (const name of readdirSync(join(sources, folder)).sort())
    if (name.endsWith(".json") && !name.endsWith(".schema.json"))
      // Without the white space of its lines.
      files[`${folder}/${name}`] = JSON.stringify(JSON.parse(text(sources, folder, name)));

const words = {
  style: text(build, "page/STYLE.txt"),
  lab_style: text(sources, "sim/lab/page/lab.css"),
  parts: text(build, "page/PARTS.txt"),
  program: text(build, "page/PROGRAM.txt"),
  wasm: packed(readFileSync(join(build, "engine.wasm"))),
  bundle: packed(
    JSON.stringify({
      loader: text(build, "engine.js"),
      worker: text(sources, "sim/lab/page/worker.js"),
      files,
    }),
  ),
};
const page = text(sources, "sim/lab/page/lab.html").replace(
  /\{\{(\w+)\}\}/g,
  (_, word) => words[word],
);
writeFileSync(join(build, "lab.html"), page);
console.log(`lab.html: ${(page.length / 1e6).toFixed(2)} MB`);
