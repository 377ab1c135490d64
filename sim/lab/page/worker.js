// Runs beside the page: holds the engine and its files, answers one question after the other.
// `stepsimEngine` is Emscripten's loader, which stands in front of this text.
let engine = null,
  given = null;

async function start() {
  engine = await stepsimEngine({ wasmBinary: given.wasm.slice(0), print() {}, printErr() {} });
  write(given.files);
}

function write(files) {
  for (const [path, text] of Object.entries(files)) {
    const folder = path.slice(0, path.lastIndexOf("/"));
    if (folder) engine.FS.mkdirTree("/" + folder);
    engine.FS.writeFile("/" + path, text);
  }
}

function answer(question) {
  const bytes = engine.lengthBytesUTF8(question) + 1,
    at = engine._malloc(bytes);
  engine.stringToUTF8(question, at, bytes);
  const text = engine.UTF8ToString(engine._stepsim_answer(at));
  engine._free(at);
  return text;
}

onmessage = async ({ data }) => {
  try {
    if (data.wasm) {
      given = data;
      await start();
      return postMessage({ id: data.id, text: "{}", milliseconds: 0 });
    }
    if (!engine) await start();
    write(data.files);
    const before = performance.now(),
      text = answer(data.question);
    postMessage({ id: data.id, text, milliseconds: performance.now() - before });
  } catch (error) {
    // Out of memory, most likely: what is left of it cannot be trusted.
    engine = null;
    const message = "the engine stopped: " + String((error && error.message) || error);
    postMessage({
      id: data.id,
      text: JSON.stringify({ error: { file: "", pointer: "", message } }),
      milliseconds: 0,
    });
  }
};
