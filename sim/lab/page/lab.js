// The lab: controls, the engine behind them, and the step that follows from them.
import { element } from "./element.js";
import { kindLetters, percent, plural, readPalette, seconds } from "./words.js";
import { blockOrder } from "./data.js";
import { clearPatterns } from "./view.js";
import { Engine, packedBytes } from "./engine.js";
import { layoutWords } from "./headline.js";
import { fromHash, newState, toHash, valueAt, wordsOf } from "./state.js";
import { Sources } from "./sources.js";
import { Controls } from "./controls.js";
import { StepView } from "./step_view.js";
import { Comparison } from "./compare.js";
import { Lessons } from "./lessons.js";
import { commandLine, filesOf, importButton, save } from "./transfer.js";

const bundle = JSON.parse(new TextDecoder().decode(await packedBytes("bundle")));
const sources = new Sources(bundle.files);
const engine = new Engine(bundle, await packedBytes("wasm"));
const body = document.getElementById("lab");
const firstStart = "1f1b-4x8";

let state = newState(firstStart),
  shown = null, // {raw, document, state} of the step on the screen
  pinned = null; // {state, raw, label}
const lab = { engine, sources, timings: [] };

// Built once; what follows the controls is filled in by show().
const heading = element("h1", {}, "stepsim lab"),
  subtitle = element("p", { class: "subtitle" }),
  problem = element("div", { class: "problem", role: "alert", hidden: true }),
  timing = element("p", { class: "note timing" }),
  command = element("code", {}),
  saveHint = element("span", { hidden: true }, " (Save writes that system beside the scenario.)"),
  said = element("span", { class: "done", role: "status" }),
  heard = element("p", { class: "hidden", role: "status" });
const boxes = Object.fromEntries(
  ["lesson", "compare", "step"].map((name) => [name, element("div", { id: name + "-box" })]),
);
const stepView = new StepView(boxes.step),
  comparison = new Comparison(boxes.compare);
const controls = new Controls(sources, (words, links) => {
  state = { ...state, ...links, words: { ...state.words, ...words } };
  run();
});
const lessons = new Lessons(boxes.lesson, sources, {
  begin: (number, words) => start("lesson-" + number, words),
  ask: async (lesson, lessonCase) => {
    const one = { ...newState("lesson-" + lesson.number), words: {} };
    const { question } = sources.question(one, null, "report");
    question.overrides = lessonCase.change;
    const { answer } = await engine.ask(question);
    return answer.error || answer.stall ? null : answer;
  },
});

function start(name, words = {}) {
  state = newState(name, words);
  run();
}
const options = (names) => names.map(([value, text]) => element("option", { value }, text));
const startPicker = element(
  "select",
  { id: "start", "aria-label": "Start from", onchange: () => start(startPicker.value) },
  element(
    "optgroup",
    { label: "Lessons" },
    options(sources.lessons.map((l) => ["lesson-" + l.number, `${l.number}. ${l.title}`])),
  ),
  element(
    "optgroup",
    { label: "Schedules, times given" },
    options(sources.scenarios.filter(hasCosts).map((n) => [n, n])),
  ),
  element(
    "optgroup",
    { label: "Models on clusters" },
    options(sources.scenarios.filter((n) => !hasCosts(n)).map((n) => [n, n])),
  ),
  element(
    "optgroup",
    { label: "Recipes of Megatron-Bridge" },
    options(sources.recipes.map((n) => [n, n.replace(/^recipes\/|_pretrain|_config$/g, "")])),
  ),
  element(
    "optgroup",
    { label: "Yours", hidden: true },
    element("option", { value: "file" }, "opened file"),
  ),
);
function hasCosts(name) {
  return Boolean(valueAt(sources.json(`scenarios/${name}.json`), "costs.forward_seconds"));
}

const button = (text, title, onclick) =>
  element("button", { type: "button", title, onclick }, text);
const pinButton = button("Pin", "Keep this step beside what comes next", () => pin());
const undoButton = button("Undo", "Back to the last step that could be simulated", () => undo());
const toolbar = element(
  "div",
  { class: "toolbar" },
  element("label", { for: "start" }, "Start from"),
  startPicker,
  button("Lessons", "Twelve questions with a guess, a try and the law behind", () =>
    start("lesson-1"),
  ),
  pinButton,
  button("Reset", "Back to the start, nothing changed", () =>
    restore({ ...newState(state.start), file: state.file }),
  ),
  importButton(openFile, (text) => complain({ file: "", pointer: "", message: text })),
  button("Save", "This scenario as a file for stepsim run", () => saveFiles()),
  button("Copy link", "An address that opens the lab as it stands", () =>
    copy(location.href, "link copied"),
  ),
  button("Copy command", "The same step on the command line", () =>
    copy(command.textContent, "command copied"),
  ),
  said,
  element("span", { class: "working" }, "simulating ..."),
);
body.replaceChildren(
  element(
    "header",
    { class: "masthead" },
    element("div", {}, heading, subtitle),
    element(
      "div",
      { class: "brand" },
      "stepsim lab",
      element("br"),
      "simulated in this page as you turn the knobs",
    ),
  ),
  toolbar,
  heard,
  element(
    "div",
    { class: "workplace" },
    element(
      "aside",
      {},
      element(
        "details",
        { open: true, class: "drawer" },
        element("summary", {}, "Settings"),
        controls.box,
      ),
    ),
    element(
      "main",
      {},
      problem,
      boxes.lesson,
      boxes.compare,
      boxes.step,
      element(
        "footer",
        {},
        element("p", { class: "note" }, "The same on the command line: ", command, saveHint),
        timing,
      ),
    ),
  ),
);

async function run() {
  const asked = state,
    { question, files } = sources.question(asked, sources.systemOf(asked));
  body.classList.add("busy");
  await engine.show(question, files, (result) => show(asked, result));
}

/** The last step that came out stays on the screen, greyed, when the next one cannot be simulated. */
function complain(error) {
  body.classList.remove("busy");
  body.classList.add("refused");
  const { file, pointer, message } = error,
    where = pointer ? "#" + pointer : file;
  problem.hidden = false;
  problem.replaceChildren(
    element("b", {}, "This cannot be simulated. "),
    element("code", {}, where === "<command line>" ? "" : where),
    where ? ": " : "",
    message,
    " ",
    shown ? undoButton : button("Start anew", "The lab as it opens", () => start(firstStart)),
  );
}

function show(asked, { answer, milliseconds, since, text }) {
  body.classList.remove("busy");
  if (answer.error) return complain(answer.error);
  if (answer.stall)
    return complain({
      file: "",
      pointer: "",
      message: `the step cannot finish; each waits for the next: ${answer.stall.waits.join("; ")}`,
    });
  const before = performance.now();
  body.classList.remove("refused");
  problem.hidden = true;
  const raw = answer.page;
  shown = { raw, document: answer.document, state: asked };
  const system = sources.systemOf(asked);
  const now = {
    state: asked,
    document: answer.document,
    report: raw.report,
    title: raw.title,
    system,
    links: system ? sources.links(system) : null,
  };
  const { report, title } = raw;
  const lesson = sources.lessonOf(asked.start);
  const name = title.given_costs
    ? lesson || !title.name
      ? "Stages of given times"
      : title.name
    : title.model || title.name;
  heading.replaceChildren(`${name} on ${plural(report.counts.gpus, "GPU")}`);
  const batch = `${layoutWords(report, title)}, ${report.mesh.schedule}, ${plural(report.mesh.microbatches, "microbatch")}`;
  subtitle.replaceChildren(
    title.given_costs
      ? batch
      : `${batch}; ${title.system}, ${plural(title.nodes, "node")} of ${title.gpus_per_node} x ${title.device}`,
  );
  heard.replaceChildren(
    `Step ${seconds(report.step_time_seconds)}, pipeline bubble ${percent(report.bubble_fraction)}`,
  );
  document.title = `${heading.textContent}: ${seconds(report.step_time_seconds)} - stepsim lab`;
  startPicker.lastElementChild.hidden = asked.start !== "file";
  startPicker.value = asked.start;
  controls.show(now, new Set(Object.keys(asked.words)));
  lessons.words = asked.words;
  lessons.turnTo(lesson ? lesson.number : 0);
  lessons.mark(asked.words);
  comparison.show(pinned, raw, unpin, () => restore(pinned.state));
  stepView.show(raw);
  const turned = system ? sources.turnedSystem(asked, system) : null;
  command.replaceChildren(
    lesson
      ? commandLine(["lesson", String(lesson.number), lesson.answer], wordsOf(asked), turned)
      : commandLine(["run", sources.scenario(asked).file], wordsOf(asked), turned),
  );
  saveHint.hidden = !turned;
  const drawn = performance.now() - before;
  timing.replaceChildren(
    `${report.counts.tasks} tasks simulated in ${milliseconds.toFixed(0)} ms, drawn in ${drawn.toFixed(0)} ms.`,
  );
  lab.timings.push({ engine: milliseconds, answered: since, drawn });
  Object.assign(lab, { shown, text });
  remember();
}

async function remember() {
  const parts = new URLSearchParams(await toHash(shown.state));
  if (pinned) parts.set("pin", await toHash(pinned.state));
  history.replaceState(null, "", "#" + parts);
}

function pin() {
  if (!shown) return;
  pinned = { state: shown.state, raw: shown.raw, label: pinLabel(shown.state) };
  comparison.show(pinned, shown.raw, unpin, () => restore(pinned.state));
  remember();
}
function pinLabel(from) {
  const words = wordsOf(from);
  for (const key of ["nic", "nvlink"]) if (from[key] !== 1) words.push(`${key} x ${from[key]}`);
  return `Pinned: ${from.file ? from.file.name : from.start}${words.length ? " with " + words.join(" ") : ""}`;
}
function unpin() {
  pinned = null;
  comparison.show(null);
  remember();
  pinButton.focus();
}
function restore(to) {
  state = to;
  run();
}
const undo = () => restore(shown.state);

function openFile(name, text) {
  state = { ...newState("file"), file: { name, text } };
  run();
}
function saveFiles() {
  const system = sources.systemOf(shown.state);
  const files = filesOf(shown.document, system ? sources.turnedSystem(shown.state, system) : null);
  for (const [name, text] of files) save(name, text);
  said.replaceChildren(files.length > 1 ? "saved, with the system beside it" : "saved");
}
async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    said.replaceChildren(done);
  } catch {
    said.replaceChildren(
      "the browser lets no page copy; it is in the address bar and at the foot of the page",
    );
  }
}

/** The state of the address: at first, and when it is edited or a link to another state is followed. */
async function follow() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const read = await fromHash(location.hash);
  state =
    read && sources.has(read.start) && (read.start !== "file" || read.file)
      ? read
      : newState(firstStart);
  const pin = parts.has("pin") ? await fromHash(parts.get("pin")) : null;
  pinned = null;
  if (pin && sources.has(pin.start)) {
    const { question, files } = sources.question(pin, sources.systemOf(pin)),
      { answer } = await engine.ask(question, files);
    if (answer.page) pinned = { state: pin, raw: answer.page, label: pinLabel(pin) };
  }
  await run();
}
addEventListener("hashchange", follow);

const redraw = () => {
  readPalette();
  clearPatterns();
  stepView.paint();
  comparison.paint();
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
if (innerWidth < 860) document.querySelector(".drawer").open = false;

await engine.ready;
await follow();

/** For tests and the console. */
globalThis.stepsim = Object.assign(lab, {
  stepView,
  comparison,
  state: () => state,
  order: (row) =>
    blockOrder(stepView.page.timeline, stepView.page.timeline.devices[row], kindLetters),
});
