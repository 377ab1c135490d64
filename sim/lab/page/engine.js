// The engine behind the page: a worker that simulates, so that the page stays at hand meanwhile.

/** The bytes of a block of the page: base64 of gzip. */
export async function packedBytes(id) {
  const coded = document.getElementById(id).textContent,
    raw = Uint8Array.from(atob(coded), (c) => c.charCodeAt(0));
  return streamBytes(new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip")));
}
export const streamBytes = (stream) => new Response(stream).arrayBuffer();

/** A step that has run for so long is given up when the reader has set something else. */
const patienceMilliseconds = 1000;

export class Engine {
  /** `bundle`: {loader, worker, files by path}; `wasm`: the module's bytes. */
  constructor(bundle, wasm) {
    this.url = URL.createObjectURL(
      new Blob([bundle.loader, "\n", bundle.worker], { type: "text/javascript" }),
    );
    this.first = { wasm, files: bundle.files };
    this.next = 0;
    this.newest = null;
    this.since = null; // when what is shown next was begun; null: nothing is
    this.begin();
  }
  begin() {
    this.worker = new Worker(this.url);
    this.open = new Map();
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
    this.ready = this.send(this.first);
  }
  /** Whatever runs is given up; who waits for it gets null. */
  restart() {
    this.worker.terminate();
    const given = [...this.open.values()];
    this.begin();
    for (const { resolve } of given) resolve(null);
  }
  send(message) {
    const id = this.next++;
    return new Promise((resolve) => {
      this.open.set(id, { resolve, asked: performance.now() });
      this.worker.postMessage({ ...message, id });
    });
  }
  /** `question` as sim/lab/lab.h has it; `files`: texts by path that it needs beside the shipped ones. */
  async ask(question, files = {}) {
    let result = null;
    while (!result) result = await this.send({ question: JSON.stringify(question), files });
    return result;
  }
  /** As `ask`, for what the page shows: only the newest is waited for. */
  async show(question, files, done) {
    this.newest = { question, files, done };
    if (this.since !== null) {
      if (performance.now() - this.since > patienceMilliseconds) this.restart();
      return;
    }
    while (this.newest) {
      const { question: q, files: f, done: then } = this.newest;
      this.newest = null;
      this.since = performance.now();
      const result = await this.send({ question: JSON.stringify(q), files: f });
      if (result && !this.newest) then(result);
    }
    this.since = null;
  }
}
