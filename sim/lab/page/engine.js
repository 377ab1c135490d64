// The engine behind the page: a worker that simulates, so that the page stays at hand meanwhile.

/** The bytes of a block of the page: base64 of gzip. */
export async function packedBytes(id) {
  const coded = document.getElementById(id).textContent,
    raw = Uint8Array.from(atob(coded), (c) => c.charCodeAt(0));
  return streamBytes(new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip")));
}
export const streamBytes = (stream) => new Response(stream).arrayBuffer();

export class Engine {
  /** `bundle`: {loader, worker, files by path}; `wasm`: the module's bytes. */
  constructor(bundle, wasm) {
    const url = URL.createObjectURL(
      new Blob([bundle.loader, "\n", bundle.worker], { type: "text/javascript" }),
    );
    this.worker = new Worker(url);
    URL.revokeObjectURL(url);
    this.open = new Map();
    this.next = 0;
    this.worker.onmessage = ({ data }) => {
      const { resolve, asked } = this.open.get(data.id);
      this.open.delete(data.id);
      resolve({
        answer: JSON.parse(data.text),
        text: data.text,
        milliseconds: data.milliseconds,
        since: performance.now() - asked,
      });
    };
    this.ready = this.send({ wasm, files: bundle.files });
    this.newest = null;
    this.busy = false;
  }
  send(message) {
    const id = this.next++;
    return new Promise((resolve) => {
      this.open.set(id, { resolve, asked: performance.now() });
      this.worker.postMessage({ ...message, id });
    });
  }
  /** `question` as sim/lab/lab.h has it; `files`: texts by path that it needs beside the shipped ones. */
  ask(question, files = {}) {
    return this.send({ question: JSON.stringify(question), files });
  }
  /** As `ask`, for what the page shows: while one runs only the newest of the others is kept. */
  async show(question, files, done) {
    this.newest = { question, files, done };
    if (this.busy) return;
    this.busy = true;
    while (this.newest) {
      const { question: q, files: f, done: then } = this.newest;
      this.newest = null;
      const result = await this.ask(q, f);
      if (!this.newest) then(result);
    }
    this.busy = false;
  }
}
