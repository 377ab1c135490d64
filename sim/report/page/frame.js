// What every page begins with and sits in: masthead, figures, navigation, theme and paper.
import { element } from "./element.js";
import { readPalette } from "./words.js";
import { clearPatterns } from "./view.js";

/** `tab`: the title of the browser's tab; `brand`: what kind of page it is. */
export function pageHead({ heading, tab, subtitles, version, brand }) {
  document.title = `${tab || heading} - stepsim`;
  return element(
    "header",
    { class: "masthead" },
    element(
      "div",
      {},
      element("h1", {}, heading),
      subtitles.filter(Boolean).map((text) => element("p", { class: "subtitle" }, text)),
    ),
    element("div", { class: "brand" }, "stepsim " + version, element("br"), brand),
  );
}

/** A grid of the figures one looks for first: [id, label, value, notes, classes]; absent ones are skipped. */
export function figureGrid(figures) {
  return element(
    "div",
    { class: "figures" },
    figures.filter(Boolean).map(([id, label, value, notes, classes = ""]) =>
      element(
        "div",
        { class: "figure " + classes, id: "figure-" + id },
        element("div", { class: "label" }, label),
        element("div", { class: "value" }, value),
        [notes]
          .flat()
          .filter(Boolean)
          .map((n) => (typeof n === "string" ? element("div", { class: "note" }, n) : n)),
      ),
    ),
  );
}

/** Links to the sections, then the sections. */
export function fillPage(body, parts) {
  const sections = parts.filter(Boolean);
  const links = sections
    .flatMap((s) => (s.matches("section") ? [s] : [...s.querySelectorAll("section")]))
    .map((s) => element("a", { href: "#" + s.id }, s.querySelector("h2").textContent));
  body.append(element("nav", { "aria-label": "Sections" }, links), element("main", {}, sections));
}

/** Draws again when the theme changes; paper is light and narrower than the screen. */
export function followTheme(draw) {
  const redraw = () => {
    readPalette();
    clearPatterns();
    draw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const onPaper = (paper) => {
    if (paper) document.documentElement.dataset.theme = "light";
    else delete document.documentElement.dataset.theme;
    redraw();
  };
  addEventListener("beforeprint", () => onPaper(true));
  addEventListener("afterprint", () => onPaper(false));
  matchMedia("print").addEventListener("change", (event) => onPaper(event.matches));
}

/** Where the page says aloud what the keyboard points at. */
export const sayingLine = () =>
  element("div", { class: "said", role: "status", "aria-live": "polite" });

/** A grey introduction of a section. */
export const lead = (...text) => element("p", { class: "lead" }, ...text);

/** A table that may be wider than a narrow screen. */
export const wide = (content) => element("div", { class: "scroll" }, content);

/** The last part of a path: files are named in full where there is room. */
export const fileName = (path) => path.slice(path.lastIndexOf("/") + 1) || path;

/** The page's data block. */
export const pageJson = () => JSON.parse(document.getElementById("data").textContent);
