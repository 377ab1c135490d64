// The twelve lessons: a question and a guess, cases to try in the lab, then the answer with the law behind it.
import { choice, element, section, table } from "./element.js";
import { gib, percent, seconds } from "./words.js";

/** "model.x=8" as key and text. */
export const splitWord = (word) => [
  word.slice(0, word.indexOf("=")),
  word.slice(word.indexOf("=") + 1),
];
export const wordsOfCase = (lessonCase) => Object.fromEntries(lessonCase.change.map(splitWord));

function pointed(report, pointer) {
  let at = report;
  for (const part of pointer.split("/").slice(1)) {
    if (at === null || at === undefined) return null;
    at = at[part.replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  return at ?? null;
}
function figureWords(value, unit) {
  if (value === null) return "-";
  if (unit === "bool") return value ? "yes" : "no";
  if (unit === "ms") return seconds(value);
  if (unit === "%") return percent(value);
  return unit === "GiB" ? gib(value) : String(value);
}
const letter = (i) => String.fromCharCode("a".charCodeAt(0) + i);

export class Lessons {
  /** `begin(number, words)`: the lab turns to a lesson's scenario. `ask(lesson, case)`: its report, or null. */
  constructor(box, sources, { begin, ask }) {
    Object.assign(this, { box, sources, begin, ask });
    this.number = 0;
    this.guess = null;
    this.answers = null;
  }
  get lesson() {
    return this.sources.lessons[this.number - 1] || null;
  }

  /** Turns to a lesson (0: none). What was guessed stays for as long as the lesson does. */
  turnTo(number) {
    if (number === this.number) return this.mark();
    this.number = number;
    this.guess = null;
    this.answers = null;
    this.draw();
  }
  /** Which case the controls stand at. */
  mark(words = this.words) {
    this.words = words;
    if (!this.cases) return;
    const at = this.lesson.cases.findIndex((c) => sameWords(wordsOfCase(c), words || {}));
    this.cases.press(at < 0 ? "" : String(at));
  }

  draw() {
    const { lesson, number } = this;
    this.box.hidden = !lesson;
    this.cases = null;
    if (!lesson) return this.box.replaceChildren();
    this.cases = choice(
      "Cases of the lesson",
      lesson.cases.map((c, i) => [String(i), c.name, c.change.join(" ") || "as it stands"]),
      "0",
      (i) => this.begin(number, wordsOfCase(lesson.cases[Number(i)])),
    );
    this.reveal = element(
      "button",
      {
        type: "button",
        class: "main",
        disabled: this.guess === null,
        onclick: () => this.answer(),
      },
      "Show the answer",
    );
    this.after = element("div", { class: "answer", "aria-live": "polite" });
    const last = this.sources.lessons.length;
    const step = (to, text) =>
      element(
        "button",
        { type: "button", disabled: to < 1 || to > last, onclick: () => this.begin(to, {}) },
        text,
      );
    this.box.replaceChildren(
      section(
        "lesson",
        `Lesson ${number}: ${lesson.title}`,
        element(
          "div",
          { class: "controls" },
          step(number - 1, "Previous"),
          step(number + 1, "Next"),
        ),
        element("p", { class: "question" }, lesson.question),
        element(
          "div",
          { class: "choices", role: "radiogroup", "aria-label": "Your guess" },
          lesson.choices.map((text, i) =>
            element(
              "label",
              { class: "choice" },
              element("input", {
                type: "radio",
                name: "guess",
                value: letter(i),
                onchange: () => this.take(i),
              }),
              element("b", {}, letter(i)),
              " ",
              text,
            ),
          ),
        ),
        element(
          "div",
          { class: "controls" },
          element("span", {}, "Try it, below follows at once:"),
          this.cases,
        ),
        element(
          "div",
          { class: "controls apart" },
          this.reveal,
          element("span", { class: "hint" }, this.guess === null ? "after a guess of yours" : ""),
        ),
        this.after,
      ),
    );
    this.mark();
  }
  take(i) {
    this.guess = i;
    this.reveal.disabled = false;
    this.box.querySelector(".hint").replaceChildren();
  }

  async answer() {
    const { lesson, guess } = this;
    const reports = [];
    for (const c of lesson.cases) reports.push(await this.ask(lesson, c));
    if (lesson !== this.lesson) return;
    const right = guess === lesson.answer.charCodeAt(0) - "a".charCodeAt(0);
    for (const label of this.box.querySelectorAll(".choice"))
      label.classList.toggle("right", label.querySelector("input").value === lesson.answer);
    this.after.replaceChildren(
      element(
        "p",
        { class: right ? "better verdict" : "worse verdict" },
        right
          ? `${lesson.answer} is right.`
          : `It is ${lesson.answer}; you guessed ${letter(guess)}.`,
      ),
      element(
        "div",
        { class: "scroll" },
        table(
          "What the engine says of each case",
          [["case"], ...lesson.figures.map((f) => [f.name, true])],
          lesson.cases.map((c, i) => [
            c.name,
            ...lesson.figures.map((f) =>
              reports[i] ? figureWords(pointed(reports[i], f.pointer), f.unit || "") : "-",
            ),
          ]),
        ),
      ),
      element("p", { class: "law" }, lesson.law),
      element(
        "p",
        { class: "note" },
        "Source: " + lesson.source + `. On the command line: stepsim lesson ${this.number}`,
      ),
    );
    this.reveal.disabled = true;
  }
}

function sameWords(a, b) {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((k) => a[k] === b[k]);
}
