// The pipeline as papers draw it: stages down, time across, one block an action.
import { Canvas, element, hideTip, showTip } from "./element.js";
import { BlockWords, rowName } from "./block_words.js";
import { firstAbove } from "./data.js";
import { causeColor, color, hues, inkOn, kindColor, mix } from "./words.js";
import { axisHeight, drawAxis, drawBrush, drawWhere, gutter, hatch, interact } from "./view.js";

const firstRow = 12; // pixels above it

export class PipelineChart {
  /** `select(device)`: the reader turned to a device. `say(text)`: for those who hear the page. */
  constructor(timeline, view, { select, say }) {
    this.timeline = timeline;
    this.words = new BlockWords(timeline);
    this.view = view;
    this.select = select;
    this.say = say;
    this.by = "pass";
    this.showPath = true;
    this.hover = null; // {device, index} of a block
    this.chosen = null; // the same, by keyboard or click
    this.selected = 0; // device
    const rows = timeline.devices.length;
    this.row = rows <= 8 ? 34 : rows <= 16 ? 26 : rows <= 32 ? 18 : rows <= 64 ? 12 : 8;
    this.gap = this.row >= 18 ? 4 : 2;
    const height = firstRow + rows * (this.row + this.gap) + axisHeight;
    this.chart = new Canvas(
      "Pipeline: stages down, time across. Arrow keys go from block to block, Enter zooms in, plus and minus zoom, 0 shows the whole step. A table follows.",
      height,
      (g, w, h) => this.draw(g, w, h),
    );
    view.onChange(() => this.chart.refresh());
    interact(this.chart, view, {
      hover: (x, y, event) => this.onHover(x, y, event),
      leave: () => this.onLeave(),
      click: (x, y) => this.onClick(x, y),
      keys: (event) => this.onKey(event),
    });
    this.box = element("div", { class: "chart" }, this.chart.canvas);
  }

  y(row) {
    return firstRow + row * (this.row + this.gap);
  }

  /** Whether single blocks are too narrow to see. */
  coarse(width) {
    const { per } = this.view.scale(width),
      t = this.timeline;
    let shown = 0;
    for (const d of t.devices)
      shown = Math.max(
        shown,
        firstAbove(d.blocks.start, this.view.high) - firstAbove(d.blocks.finish, this.view.low),
      );
    return shown > 0 && ((this.view.high - this.view.low) * per) / shown < 1.2;
  }

  fill(device, i) {
    const t = this.timeline,
      kind = t.kinds[device.blocks.kind[i]],
      microbatch = device.blocks.microbatch[i];
    if (kind === "step") return kindColor(kind);
    let base = kindColor(kind);
    if (this.by === "microbatch") {
      base = hues[microbatch % hues.length];
      if (kind !== "forward") base = mix(base, "#000000", kind === "backward_weight" ? 0.5 : 0.72);
    }
    const strength = t.chunks > 1 ? 1 - (0.55 * device.blocks.chunk[i]) / (t.chunks - 1) : 1;
    return mix(base, color("sheet"), strength);
  }

  draw(g, width, height) {
    const { timeline: t, view } = this;
    const scale = view.scale(width),
      bottom = height - axisHeight;
    drawAxis(g, view, width, firstRow, bottom);
    if (!view.whole) drawWhere(g, view, width);
    const coarse = (this.isCoarse = this.coarse(width));
    t.devices.forEach((device, row) => {
      const y = this.y(row);
      g.fillStyle = color(this.selected === row ? "ink" : "soft");
      g.font =
        (this.selected === row ? "600 " : "") +
        (this.row >= 12 ? 12 : 9) +
        "px system-ui, sans-serif";
      if (this.row >= 12 || row % 4 === 0) g.fillText(rowName(device), 0, y + this.row / 2);
      g.font = "12px system-ui, sans-serif";
      g.save();
      g.beginPath();
      g.rect(gutter, y, width - gutter, this.row);
      g.clip();
      g.fillStyle = color("sheet");
      g.fillRect(scale.x(device.begin), y, scale.x(device.end) - scale.x(device.begin), this.row);
      this.drawWaits(g, device, y, scale, coarse);
      if (coarse) this.drawColumns(g, device, y, scale, width);
      else this.drawBlocks(g, device, y, scale);
      g.restore();
    });
    if (this.showPath) this.drawPath(g, scale, width);
    this.drawCause(g, scale);
    drawBrush(g, this.chart, view, width, bottom);
  }

  drawWaits(g, device, y, scale, coarse) {
    const { waits } = device,
      { low, high } = this.view;
    for (let i = firstAbove(waits.finish, low); i < waits.count && waits.start[i] < high; ++i) {
      const x = scale.x(waits.start[i]),
        w = scale.x(waits.finish[i]) - x,
        cause = this.timeline.causes[waits.cause[i]];
      if (w < 1.5 && coarse) continue;
      if (cause === "bubble") {
        g.fillStyle = hatch(g, color("hatch"));
        g.fillRect(x, y, w, this.row);
      } else {
        g.fillStyle = mix(causeColor(cause), color("sheet"), 0.35);
        g.fillRect(x, y + this.row * 0.3, w, this.row * 0.4);
      }
    }
  }

  drawBlocks(g, device, y, scale) {
    const { blocks } = device,
      { low, high } = this.view,
      half = (this.row - 1) / 2,
      t = this.timeline;
    const light = this.hover || this.chosen;
    const microbatch =
      light && this.hover ? this.hover.device.blocks.microbatch[this.hover.index] : null;
    for (
      let i = Math.max(0, firstAbove(blocks.finish, low) - 1);
      i < blocks.count && blocks.start[i] < high;
      ++i
    ) {
      const x = scale.x(blocks.start[i]),
        w = scale.x(blocks.finish[i]) - x,
        lane = blocks.lane[i];
      const at = lane === 2 ? y + half + 1 : y,
        h = lane ? half : this.row;
      const fill = this.fill(device, i);
      g.globalAlpha =
        microbatch !== null && microbatch >= 0 && blocks.microbatch[i] !== microbatch ? 0.38 : 1;
      g.fillStyle = fill;
      g.fillRect(x, at, Math.max(0.6, w - (w > 4 ? 1 : 0.3)), h);
      if (this.by === "microbatch" && t.kinds[blocks.kind[i]] === "backward_weight" && w > 3) {
        g.fillStyle = hatch(g, "rgba(255,255,255,0.45)");
        g.fillRect(x, at, w - 1, h);
      }
      const label = blocks.microbatch[i] < 0 ? "" : String(blocks.microbatch[i]);
      if (h >= 11 && label && w > 6 * label.length + 2) {
        g.fillStyle = inkOn(fill);
        g.textAlign = "center";
        g.font =
          (lane || this.row < 18 || w < 8 * label.length + 4 ? 10 : 12) +
          "px system-ui, sans-serif";
        const from = Math.max(gutter, x),
          to = Math.min(this.chart.width, x + w);
        g.fillText(label, (from + to) / 2, at + h / 2 + 0.5);
      }
    }
    g.globalAlpha = 1;
    g.textAlign = "left";
  }

  /** Columns of a few blocks each, split by the share of time of every kind: what is too many to draw. */
  drawColumns(g, device, y, scale, width) {
    const { blocks } = device,
      kinds = this.timeline.kinds;
    const shown =
      firstAbove(blocks.start, this.view.high) - firstAbove(blocks.finish, this.view.low);
    const step = Math.max(
      2,
      Math.round((6 * (this.view.high - this.view.low) * scale.per) / Math.max(1, shown)),
    );
    const columns = Math.ceil((width - gutter) / step),
      shares = kinds.map(() => new Float64Array(columns));
    const first = this.view.low,
      span = step / scale.per;
    for (
      let i = Math.max(0, firstAbove(blocks.finish, this.view.low) - 1);
      i < blocks.count && blocks.start[i] < this.view.high;
      ++i
    ) {
      const share = shares[blocks.kind[i]];
      const weight = blocks.lane[i] ? 0.5 : 1;
      for (
        let c = Math.max(0, Math.floor((blocks.start[i] - first) / span));
        c < columns && first + c * span < blocks.finish[i];
        ++c
      )
        share[c] +=
          (weight *
            (Math.min(blocks.finish[i], first + (c + 1) * span) -
              Math.max(blocks.start[i], first + c * span))) /
          span;
    }
    for (let c = 0; c < columns; ++c) {
      let at = y;
      kinds.forEach((kind, k) => {
        const h = Math.min(1, shares[k][c]) * this.row;
        if (h <= 0) return;
        g.fillStyle = kindColor(kind);
        g.fillRect(gutter + c * step, at, step, h);
        at += h;
      });
    }
  }

  drawPath(g, scale, width) {
    const { timeline: t, view } = this;
    g.strokeStyle = color("path");
    g.fillStyle = color("path");
    let before = null;
    const rowOf = new Map(t.devices.map((d, row) => [d.device, row]));
    g.lineWidth = this.isCoarse ? 0.6 : 1.2;
    for (const stay of t.path) {
      const row = rowOf.get(stay.device);
      if (row === undefined) {
        before = null;
        continue;
      }
      const y = this.y(row) + this.row - 1.5;
      const [a, b] = [Math.max(gutter, scale.x(stay.start)), Math.min(width, scale.x(stay.finish))];
      if (stay.finish >= view.low && stay.start <= view.high && b >= a)
        g.fillRect(a, y - 0.5, Math.max(0.8, b - a), 2.5);
      if (before && before.y !== y && stay.start >= view.low && stay.start <= view.high) {
        g.beginPath();
        g.moveTo(scale.x(before.finish), before.y);
        g.lineTo(scale.x(stay.start), y);
        g.stroke();
      }
      before = { y, finish: stay.finish };
    }
  }

  /** Outlines the block looked at and the one that it waited for, with a line between. */
  drawCause(g, scale) {
    const at = this.hover || this.chosen;
    if (!at || this.isCoarse) return;
    const box = ({ device, index }) => {
      const row = this.timeline.devices.indexOf(device),
        { blocks } = device;
      return {
        x: scale.x(blocks.start[index]),
        end: scale.x(blocks.finish[index]),
        y: this.y(row),
      };
    };
    const outline = (b) =>
      g.strokeRect(
        Math.max(gutter, b.x) - 0.5,
        b.y - 0.5,
        Math.max(2, Math.min(b.end, this.chart.width) - Math.max(gutter, b.x)),
        this.row + 1,
      );
    const own = box(at);
    g.strokeStyle = color("ink");
    g.lineWidth = 2;
    if (own.end > gutter) outline(own);
    const source = this.words.sourceOf(at);
    if (!source) return;
    const from = box(source);
    if (from.end < gutter) return;
    g.setLineDash([4, 3]);
    outline(from);
    g.beginPath();
    g.moveTo(from.end, from.y + this.row / 2);
    g.lineTo(own.x, own.y + this.row / 2);
    g.stroke();
    g.setLineDash([]);
  }

  find(x, y) {
    if (x < gutter) return null;
    const row = Math.floor((y - firstRow) / (this.row + this.gap));
    const device = this.timeline.devices[row];
    if (!device) return null;
    const t = this.view.scale(this.chart.width).t(x),
      { blocks, waits } = device;
    const low = y - this.y(row) > this.row / 2;
    for (
      let i = Math.max(0, firstAbove(blocks.finish, t) - 1);
      i < blocks.count && blocks.start[i] <= t;
      ++i
    )
      if (t <= blocks.finish[i] && (!blocks.lane[i] || (blocks.lane[i] === 2) === low))
        return { device, index: i, row };
    const i = firstAbove(waits.finish, t);
    if (i < waits.count && waits.start[i] <= t) return { device, wait: i, row };
    return { device, row };
  }

  onHover(x, y, event) {
    const found = this.find(x, y);
    const block = found && found.index !== undefined && !this.isCoarse ? found : null;
    if (
      (block &&
        (!this.hover || this.hover.device !== block.device || this.hover.index !== block.index)) ||
      (!block && this.hover)
    ) {
      this.hover = block;
      this.chart.refresh();
    }
    this.chart.canvas.style.cursor = x < gutter && found ? "pointer" : "crosshair";
    if (block) showTip(event.clientX, event.clientY, ...this.words.describe(block));
    else if (found && found.wait !== undefined)
      showTip(event.clientX, event.clientY, ...this.words.describeWait(found));
    else if (found && this.isCoarse)
      showTip(event.clientX, event.clientY, rowName(found.device), [
        "Too many actions to draw one by one: each column shows shares of time. Drag to zoom in.",
      ]);
    else hideTip();
  }
  onLeave() {
    hideTip();
    if (this.hover) {
      this.hover = null;
      this.chart.refresh();
    }
  }
  onClick(x, y) {
    const row = Math.floor((y - firstRow) / (this.row + this.gap));
    if (this.timeline.devices[row]) this.turnTo(row);
    const found = this.find(x, y);
    this.chosen = found && found.index !== undefined ? found : null;
    if (this.chosen) this.speak();
    this.chart.refresh();
  }
  turnTo(row) {
    this.selected = row;
    this.select(row);
    this.chart.refresh();
  }

  onKey(event) {
    const { devices } = this.timeline;
    const at = this.chosen || {
      device: devices[this.selected],
      index: Math.max(0, firstAbove(devices[this.selected].blocks.finish, this.view.low)) - 1,
    };
    const go = (device, index) => {
      if (!device || index < 0 || index >= device.blocks.count) return;
      this.chosen = { device, index };
      const row = devices.indexOf(device);
      if (row !== this.selected) this.turnTo(row);
      this.view.reveal(device.blocks.start[index], device.blocks.finish[index]);
      this.speak();
      this.chart.refresh();
    };
    const beside = (shift) => {
      const device = devices[devices.indexOf(at.device) + shift];
      if (device)
        go(
          device,
          Math.min(
            device.blocks.count - 1,
            firstAbove(device.blocks.finish, at.device.blocks.start[Math.max(0, at.index)]),
          ),
        );
    };
    switch (event.key) {
      case "ArrowRight":
        go(at.device, at.index + 1);
        return true;
      case "ArrowLeft":
        go(at.device, at.index - 1);
        return true;
      case "ArrowDown":
        beside(1);
        return true;
      case "ArrowUp":
        beside(-1);
        return true;
      case "Enter": {
        if (at.index < 0) return true;
        const { start, finish } = at.device.blocks,
          span = finish[at.index] - start[at.index];
        this.view.set(start[at.index] - span, finish[at.index] + span);
        return true;
      }
      case "Escape":
        this.chosen = null;
        hideTip();
        this.chart.refresh();
        return true;
    }
    return false;
  }
  speak() {
    const [heading, lines] = this.words.describe(this.chosen);
    this.say(
      [heading, ...lines.filter(Boolean).map((l) => (Array.isArray(l) ? l.join(" ") : l))].join(
        ". ",
      ),
    );
  }
}
