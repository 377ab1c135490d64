// The engine out of build/lab/lab.html, in Node.js: what the page asks it, without a page.
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";

const root = resolve(import.meta.dirname, "../..");
export const labFile = join(root, "build/lab/lab.html");

/** A function from a question (sim/lab/lab.h) to its answer's text. */
export async function labEngine() {
  const page = readFileSync(labFile, "utf8");
  const block = (id) =>
    gunzipSync(Buffer.from(page.split(`id="${id}">`)[1].split("</script>")[0], "base64"));
  const bundle = JSON.parse(block("bundle"));
  const loader = join(mkdtempSync(join(tmpdir(), "stepsim-lab-")), "loader.cjs");
  writeFileSync(loader, bundle.loader);
  const engine = await createRequire(loader)(loader)({ wasmBinary: block("wasm") });
  for (const [path, text] of Object.entries(bundle.files)) {
    engine.FS.mkdirTree("/" + path.slice(0, path.lastIndexOf("/")));
    engine.FS.writeFile("/" + path, text);
  }
  return (question) => {
    const text = JSON.stringify(question),
      bytes = engine.lengthBytesUTF8(text) + 1,
      at = engine._malloc(bytes);
    engine.stringToUTF8(text, at, bytes);
    const answer = engine.UTF8ToString(engine._stepsim_answer(at));
    engine._free(at);
    return answer;
  };
}
