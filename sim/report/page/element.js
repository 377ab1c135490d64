// Builds the page's elements. Text is only ever set as text, so that names show as they are.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  fill(made, attributes, children);
  return made;
}

export function shape(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(made, attributes, children);
  return made;
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style")
      for (const [k, v] of Object.entries(value)) made.style.setProperty(k, v);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
}

/** A section with its heading; controls stand beside the heading. */
export function section(id, title, controls, ...children) {
  return element(
    "section",
    { id, "aria-labelledby": id + "-title" },
    element("div", { class: "head" }, element("h2", { id: id + "-title" }, title), controls),
    ...children,
  );
}

/** `columns`: [heading, numeric]; rows of texts or elements. */
export function table(caption, columns, rows) {
  return element(
    "table",
    {},
    element("caption", { class: "hidden" }, caption),
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        columns.map(([text, numeric]) =>
          element("th", { scope: "col", class: numeric ? "n" : null }, text),
        ),
      ),
    ),
    element(
      "tbody",
      {},
      rows.map((row) =>
        element(
          "tr",
          {},
          row.map((cell, i) => element("td", { class: columns[i][1] ? "n" : "wide" }, cell)),
        ),
      ),
    ),
  );
}

/** Folded away; its content is made when first opened. */
export function folded(summary, make) {
  const inside = element("div", {
    class: "scroll",
    tabindex: "0",
    role: "region",
    "aria-label": summary,
  });
  const made = element("details", {}, element("summary", {}, summary), inside);
  made.addEventListener("toggle", () => {
    if (!made.open) return;
    inside.replaceChildren(...[make()].flat());
  });
  return made;
}

/** Buttons of which one is pressed. `options`: [value, text, title]. */
export function choice(name, options, value, choose) {
  const set = element("span", { class: "set", role: "group", "aria-label": name });
  const press = (chosen) => {
    for (const b of set.children) b.setAttribute("aria-pressed", String(b.value === chosen));
  };
  for (const [key, text, title] of options)
    set.append(
      element(
        "button",
        {
          type: "button",
          value: key,
          title,
          onclick: () => {
            press(key);
            choose(key);
          },
        },
        text,
      ),
    );
  press(value);
  set.press = press;
  return set;
}

export function checkbox(text, checked, change) {
  const box = element("input", { type: "checkbox", onchange: () => change(box.checked) });
  box.checked = checked;
  return element("label", {}, box, text);
}

export function legend(items) {
  return element(
    "ul",
    { class: "legend" },
    items.map(([text, variable, hatched]) =>
      element(
        "li",
        {},
        element("span", {
          class: "swatch" + (hatched ? " hatched" : ""),
          style: hatched ? {} : { background: `var(--${variable})` },
        }),
        text,
      ),
    ),
  );
}

const tip = element("div", { class: "tip", role: "tooltip", hidden: true });
/** `lines`: a heading, then [what, value] rows or plain texts. */
export function showTip(x, y, heading, lines) {
  if (!tip.isConnected) document.body.append(tip);
  tip.replaceChildren(
    element("b", {}, heading),
    ...lines
      .filter(Boolean)
      .map((line) =>
        Array.isArray(line)
          ? element(
              "div",
              { class: "row" },
              element("span", {}, line[0]),
              element("span", {}, line[1]),
            )
          : element("div", {}, line),
      ),
  );
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top =
    Math.max(4, y + 16 + box.height > innerHeight ? y - box.height - 12 : y + 16) + "px";
}
export function hideTip() {
  tip.hidden = true;
}

/** A canvas that is drawn again whenever its width, the theme or the paper changes. */
export class Canvas {
  constructor(label, height, draw) {
    this.canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": label });
    this.height = height;
    this.draw = draw;
    this.pending = false;
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }
  get width() {
    return this.canvas.clientWidth;
  }
  paint() {
    const scale = Math.max(1, devicePixelRatio || 1),
      width = this.canvas.clientWidth;
    if (width < 160) return; // no room for anything beside the names
    const pixels = [Math.round(width * scale), Math.round(this.height * scale)];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) {
      [this.canvas.width, this.canvas.height] = pixels;
      this.canvas.style.height = this.height + "px";
    }
    const g = this.canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, this.height);
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    this.draw(g, width, this.height);
  }
  /** Once, before the next frame. */
  refresh() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.paint();
    });
  }
}
