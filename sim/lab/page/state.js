// What the reader has set: where it starts, what is changed, the machine's links. It is all in the URL.
import { streamBytes } from "./engine.js";

/**
 * `start`: a shipped scenario's name, "lesson-3", or "file" with `file` {name, text}.
 * `words`: values by dotted key, as text behind "key=" on the command line. `nic`, `nvlink`: factors on the system's links.
 */
export const newState = (start, words = {}) => ({ start, file: null, words, nic: 1, nvlink: 1 });

export const wordsOf = (state) =>
  Object.entries(state.words).map(([key, value]) => `${key}=${value}`);

const reserved = new Set(["start", "nic", "nvlink", "name", "text", "pin"]);

const base64 = {
  of: (bytes) =>
    btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(""))
      .replaceAll("+", "-")
      .replaceAll("/", "_")
      .replaceAll("=", ""),
  to: (text) =>
    Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0)),
};
const through = (bytes, stream) => streamBytes(new Blob([bytes]).stream().pipeThrough(stream));

export async function toHash(state) {
  const parts = new URLSearchParams({ start: state.start });
  if (state.file) {
    const bytes = await through(
      new TextEncoder().encode(state.file.text),
      new CompressionStream("deflate-raw"),
    );
    parts.set("name", state.file.name);
    parts.set("text", base64.of(new Uint8Array(bytes)));
  }
  for (const [key, value] of Object.entries(state.words)) parts.set(key, value);
  for (const key of ["nic", "nvlink"]) if (state[key] !== 1) parts.set(key, String(state[key]));
  return parts.toString();
}

/** Null where the text is no state. */
export async function fromHash(text) {
  const parts = new URLSearchParams(text.replace(/^#/, ""));
  if (!parts.has("start")) return null;
  const state = newState(parts.get("start"));
  const factor = (key) => {
    const value = Number(parts.get(key) ?? 1);
    return value > 0 && Number.isFinite(value) ? value : 1;
  };
  state.nic = factor("nic");
  state.nvlink = factor("nvlink");
  try {
    if (parts.has("text")) {
      const bytes = await through(
        base64.to(parts.get("text")),
        new DecompressionStream("deflate-raw"),
      );
      state.file = {
        name: parts.get("name") || "file.json",
        text: new TextDecoder().decode(bytes),
      };
    }
  } catch {
    return null;
  }
  for (const [key, value] of parts) if (!reserved.has(key)) state.words[key] = value;
  return state;
}

/** The value at a dotted key of a document. */
export function valueAt(document, key) {
  let at = document;
  for (const part of key.split(".")) {
    if (at === null || typeof at !== "object") return undefined;
    at = at[part];
  }
  return at;
}
