// The column of controls: rows as sliders, lists and switches.
import { element } from "./element.js";
import { valueAt } from "./state.js";
import { controlGroups } from "./control_rows.js";

/** The controls as elements; `set(words, links)` is called with what the reader sets. */
export class Controls {
  constructor(sources, set) {
    this.sources = sources;
    this.set = set;
    this.rows = [];
    this.box = element("form", {
      class: "controls-column",
      "aria-label": "Settings",
      onsubmit: (event) => event.preventDefault(),
    });
    for (const group of controlGroups) {
      const made = group.rows.map((row) => this.row(row));
      const block = element(
        "fieldset",
        {},
        element("legend", {}, group.title),
        made.map((r) => r.box),
      );
      this.box.append(block);
      this.rows.push(...made.map((r) => ({ ...r, block })));
    }
  }

  row(row) {
    const id = "set-" + row.id,
      title = [row.hint, row.key].filter(Boolean).join("; ") || null;
    const name = element("label", { for: id, title }, row.label);
    if (row.pick) return this.pick(row, id, name);
    if (row.flag) return this.flag(row, id, title);
    if (row.slide) return this.slide(row, id, name, title);
    const value = element("output", { id });
    return {
      row,
      box: element("div", { class: "derived", title }, element("span", {}, row.label), value),
      show: (now) => value.replaceChildren((row.text || String)(row.value(now), now)),
    };
  }

  change(row, value) {
    if (row.link) return this.set({}, { [row.link]: value });
    const word = row.word ? row.word(value, this.now) : String(value);
    this.set({ [row.key]: word, ...(row.beside ? row.beside(value, this.now) : {}) }, {});
  }

  pick(row, id, name) {
    const select = element("select", { id, onchange: () => this.change(row, select.value) });
    return {
      row,
      box: element("div", { class: "picked" }, name, select),
      show: (now) => {
        const value = row.value(now) ?? "",
          offered = row.pick(now, this.sources);
        const names = offered.includes(value) ? offered : [value, ...offered];
        if (names.join("\n") !== select.dataset.names) {
          select.replaceChildren(
            ...names.map((n) => element("option", { value: n }, (row.text || String)(n))),
          );
          select.dataset.names = names.join("\n");
        }
        select.value = value;
      },
    };
  }

  flag(row, id, title) {
    const input = element("input", {
      type: "checkbox",
      id,
      onchange: () => this.change(row, input.checked),
    });
    const mark = element("span", { class: "idle", hidden: true }, "no effect");
    return {
      row,
      box: element(
        "div",
        { class: "flagged" },
        element("label", { title }, input, row.label),
        mark,
      ),
      show: (now) => {
        const inEffect = Boolean(row.flag(now)),
          asked = valueAt(now.document, row.key);
        input.checked = typeof asked === "boolean" ? asked : inEffect;
        mark.hidden = input.checked === inEffect;
        mark.title = mark.hidden ? "" : silentReason(now, row.key);
      },
    };
  }

  slide(row, id, name, title) {
    let values = [];
    const says = element("output", { for: id });
    const words = (value) => (row.text ? row.text(value, this.now) : String(value));
    const input = element("input", {
      type: "range",
      id,
      min: 0,
      step: 1,
      title,
      oninput: () => {
        const value = values[Number(input.value)];
        says.replaceChildren(words(value));
        input.setAttribute("aria-valuetext", words(value));
        this.change(row, value);
      },
    });
    return {
      row,
      box: element("div", { class: "slid" }, name, says, input),
      show: (now) => {
        const value = row.value(now);
        values = [...new Set([...row.slide(now), value])].sort((a, b) => a - b);
        input.max = String(values.length - 1);
        input.value = String(values.indexOf(value));
        input.disabled = values.length < 2;
        input.setAttribute("aria-valuetext", words(value));
        says.replaceChildren(words(value));
      },
    };
  }

  /** `now`: {state, document, report, title, system, links} of the step that is shown. A control in hand keeps still. */
  show(now, changed) {
    this.now = now;
    for (const { row, box, show } of this.rows) {
      const there = !row.when || row.when(now);
      box.hidden = !there;
      box.classList.toggle(
        "changed",
        Boolean((row.key && changed.has(row.key)) || (row.link && now.state[row.link] !== 1)),
      );
      if (there && !box.matches(":active")) show(now);
    }
    for (const block of new Set(this.rows.map((r) => r.block)))
      block.hidden = this.rows.every((r) => r.block !== block || r.box.hidden);
  }
}

/** Why a setting is not in effect, where the report says so. */
function silentReason({ report }, key) {
  const last = key.split(".").pop();
  const found = report.findings.find((f) => f.key && f.key.split(".").pop() === last);
  return found ? found.reason : "";
}
