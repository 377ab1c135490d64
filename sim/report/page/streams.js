// The streams of one device: what runs, what moves, and what of it is not hidden.
import { Canvas, element, hideTip, showTip } from "./element.js";
import { firstAbove } from "./data.js";
import { withBareParts } from "./bare_parts.js";
import { causeColor, causeWords, color, inkOn, kindColor, mix, percent, seconds } from "./words.js";
import { axisHeight, drawAxis, drawBrush, drawWhere, gutter, hatch, interact } from "./view.js";
import { rowName } from "./block_words.js";

const streamTop = 12,
  streamRow = 26,
  streamGap = 5;

export class StreamsChart {
  constructor(page, view, { pipeline }) {
    this.page = page;
    this.view = view;
    this.pipeline = pipeline;
    this.hover = null;
    this.chart = new Canvas(
      "Streams of one device over time. Plus and minus zoom, Shift and arrow keys move. A table follows.",
      200,
      (g, w, h) => this.draw(g, w, h),
    );
    view.onChange(() => this.chart.refresh());
    interact(this.chart, view, {
      hover: (x, y, event) => this.onHover(x, y, event),
      leave: () => {
        hideTip();
        if (this.hover) {
          this.hover = null;
          this.chart.refresh();
        }
      },
      click: () => {},
    });
    this.box = element("div", { class: "chart" }, this.chart.canvas);
    this.show(0);
  }

  show(index) {
    this.device = this.page.timeline.devices[index];
    const { detail, activity } = this.page,
      id = this.device.device;
    this.windows = detail
      ? detail.windows.map((w) =>
          withBareParts(
            w,
            w.streams.filter((s) => s.device === id),
            detail.ops,
          ),
        )
      : [];
    for (const w of this.windows) w.idle = w.idle.find((i) => i.device === id);
    this.activity = new Map(activity.filter((a) => a.device === id).map((a) => [a.stream, a]));
    const names = new Set(["compute"]);
    for (const w of this.windows) for (const s of w.streams) names.add(s.stream);
    for (const name of this.activity.keys()) names.add(name);
    this.names = [...names];
    this.chart.height = streamTop + this.names.length * (streamRow + streamGap) + axisHeight;
    this.chart.refresh();
  }

  draw(g, width, height) {
    const { view } = this,
      scale = view.scale(width),
      bottom = height - axisHeight;
    drawAxis(g, view, width, streamTop, bottom);
    if (!view.whole) drawWhere(g, view, width);
    this.names.forEach((name, r) => {
      const y = streamTop + r * (streamRow + streamGap);
      g.fillStyle = color("soft");
      g.fillText(name, 0, y + streamRow / 2);
      g.save();
      g.beginPath();
      g.rect(gutter, y, width - gutter, streamRow);
      g.clip();
      g.fillStyle = color("sheet");
      g.fillRect(gutter, y, width - gutter, streamRow);
      const single = this.singly(scale);
      this.drawOutside(g, name, y, scale, width, single);
      for (const w of single) {
        if (name === "compute" && w.idle) this.drawIdle(g, w.idle, y, scale);
        const s = w.streams.find((x) => x.stream === name);
        if (s) this.drawStream(g, s, y, scale);
      }
      g.restore();
    });
    // Where single tasks are known.
    if (this.windows.length > 1)
      for (const w of this.windows) {
        g.fillStyle = color("ink");
        const [a, b] = [Math.max(gutter, scale.x(w.low)), Math.min(width, scale.x(w.high))];
        if (b > a) g.fillRect(a, bottom + 1, Math.max(2, b - a), 2);
      }
    drawBrush(g, this.chart, view, width, bottom);
  }

  /** The stretches in sight whose tasks are wide enough to be drawn one by one. */
  singly(scale) {
    return this.windows.filter((w) => {
      const low = Math.max(w.low, this.view.low),
        high = Math.min(w.high, this.view.high);
      if (high <= low) return false;
      const most = Math.max(
        0,
        ...w.streams.map((s) => firstAbove(s.start, high) - firstAbove(s.finish, low)),
      );
      return most < 0.8 * (high - low) * scale.per;
    });
  }
  /** Everywhere else: blocks of kernels, and how busy each stream of transfers is. */
  drawOutside(g, name, y, scale, width, single) {
    const parts = [];
    let at = this.view.low;
    for (const w of single) {
      if (w.low > at) parts.push([at, Math.min(w.low, this.view.high)]);
      at = Math.max(at, w.high);
    }
    if (at < this.view.high) parts.push([at, this.view.high]);
    for (const [low, high] of parts) {
      if (high <= low) continue;
      g.save();
      g.beginPath();
      g.rect(scale.x(low), y, scale.x(high) - scale.x(low), streamRow);
      g.clip();
      if (name === "compute") {
        const p = this.pipeline,
          was = p.row;
        p.row = streamRow;
        p.drawWaits(g, this.device, y, scale, false);
        if (p.coarse(width)) p.drawColumns(g, this.device, y, scale, width);
        else p.drawBlocks(g, this.device, y, scale);
        p.row = was;
      } else {
        const strip = this.activity.get(name);
        if (strip) this.drawStrip(g, strip, y, scale);
      }
      g.restore();
    }
  }
  drawStrip(g, strip, y, scale) {
    const [first, last] = this.view.full,
      n = strip.all.length,
      each = (last - first) / n,
      base = color(this.page.timeline.classes[strip.class]);
    for (let i = 0; i < n; ++i) {
      const x = scale.x(first + i * each),
        w = scale.per * each + 0.5;
      if (x + w < gutter || strip.all[i] <= 0) continue;
      const hidden = Math.min(strip.hidden[i], strip.all[i]) * streamRow,
        all = strip.all[i] * streamRow;
      g.fillStyle = mix(base, color("sheet"), 0.3);
      g.fillRect(x, y + streamRow - hidden, w, hidden);
      g.fillStyle = base;
      g.fillRect(x, y + streamRow - all, w, all - hidden);
    }
  }

  /** Between kernels, by cause. */
  drawIdle(g, idle, y, scale) {
    for (
      let i = firstAbove(idle.finish, this.view.low);
      i < idle.count && idle.start[i] < this.view.high;
      ++i
    ) {
      const cause = this.page.timeline.causes[idle.cause[i]],
        x = scale.x(idle.start[i]),
        wide = scale.x(idle.finish[i]) - x;
      if (wide < 0.4) continue;
      g.fillStyle =
        cause === "bubble" ? hatch(g, color("hatch")) : mix(causeColor(cause), color("sheet"), 0.4);
      if (cause === "bubble") g.fillRect(x, y, wide, streamRow);
      else g.fillRect(x, y + streamRow * 0.3, wide, streamRow * 0.4);
    }
  }

  drawStream(g, s, y, scale) {
    const { view } = this,
      ops = this.page.detail.ops,
      compute = s.stream === "compute",
      classes = this.page.timeline.classes;
    let last = -1e9;
    for (
      let i = Math.max(0, firstAbove(s.finish, view.low) - 1);
      i < s.count && s.start[i] < view.high;
      ++i
    ) {
      const [name, pass, , comm] = ops[s.op[i]];
      const x = scale.x(s.start[i]),
        wide = scale.x(s.finish[i]) - x;
      if (wide < 0.25 && x - last < 0.4) continue;
      last = x;
      const base = compute ? kindColor(passKind(pass)) : color(classes[comm]);
      const fill = compute
        ? i % 2
          ? base
          : mix(base, color("sheet"), 0.86)
        : mix(base, color("sheet"), 0.3);
      g.fillStyle = fill;
      g.fillRect(x, y, Math.max(0.5, wide - (wide > 5 ? 0.7 : 0)), streamRow);
      if (!compute) {
        g.fillStyle = base;
        for (const [a, b] of s.bare[i])
          g.fillRect(scale.x(a), y, Math.max(0.4, scale.x(b) - scale.x(a)), streamRow);
      }
      if (this.pipeline.showPath && s.critical.has(i)) {
        g.fillStyle = color("path");
        g.fillRect(x, y + streamRow - 2.5, Math.max(0.5, wide), 2.5);
      }
      if (this.hover && this.hover.stream === s && this.hover.index === i) {
        g.strokeStyle = color("ink");
        g.lineWidth = 2;
        g.strokeRect(x + 1, y + 1, Math.max(2, wide - 2), streamRow - 2);
      }
      const label = name + (s.layer[i] >= 0 ? " L" + s.layer[i] : "");
      if (wide > 6.2 * label.length + 6) {
        g.fillStyle = compute ? inkOn(fill) : color("ink");
        g.font = "11px system-ui, sans-serif";
        g.fillText(label, Math.max(x, gutter) + 4, y + streamRow / 2);
        g.font = "12px system-ui, sans-serif";
      }
    }
  }

  onHover(x, y, event) {
    const name = this.names[Math.floor((y - streamTop) / (streamRow + streamGap))],
      t = this.view.scale(this.chart.width).t(x);
    let found = null;
    if (name && x >= gutter)
      for (const w of this.windows) {
        if (t < w.low || t > w.high) continue;
        const s = w.streams.find((v) => v.stream === name);
        if (!s) continue;
        const i = Math.max(0, firstAbove(s.finish, t));
        if (i < s.count && s.start[i] <= t) found = { stream: s, index: i, window: w };
      }
    if (
      (found &&
        (!this.hover || found.stream !== this.hover.stream || found.index !== this.hover.index)) ||
      (!found && this.hover)
    ) {
      this.hover = found;
      this.chart.refresh();
    }
    this.chart.canvas.style.cursor = "crosshair";
    if (found && this.singly(this.view.scale(this.chart.width)).includes(found.window))
      return showTip(event.clientX, event.clientY, ...this.describe(found));
    if (name === "compute" && x >= gutter) return this.tipIdle(t, event);
    const single = this.singly(this.view.scale(this.chart.width)).some(
      (w) => t >= w.low && t <= w.high,
    );
    if (name && x >= gutter && t <= this.view.full[1] && !single) {
      const strip = this.activity.get(name);
      if (strip) {
        const i = Math.min(
          strip.all.length - 1,
          Math.floor(
            ((t - this.view.full[0]) / (this.view.full[1] - this.view.full[0])) * strip.all.length,
          ),
        );
        return showTip(event.clientX, event.clientY, name, [
          ["moving", percent(strip.all[i])],
          [
            "hidden of it",
            percent(strip.all[i] ? Math.min(1, strip.hidden[i] / strip.all[i]) : null),
          ],
          "Zoom in, to where a dark line is under the chart, for single transfers.",
        ]);
      }
    }
    hideTip();
  }
  /** Why the compute stream idles at a moment: within an action where single tasks are known, or between two. */
  tipIdle(t, event) {
    for (const w of this.windows) {
      if (!w.idle || t < w.low || t > w.high) continue;
      const i = firstAbove(w.idle.finish, t);
      if (i >= w.idle.count || w.idle.start[i] > t) continue;
      const lines = [
        ["from", seconds(w.idle.start[i])],
        ["lasts", seconds(w.idle.finish[i] - w.idle.start[i])],
      ];
      const compute = w.streams.find((s) => s.stream === "compute"),
        next = compute ? firstAbove(compute.start, t) : 0;
      if (compute && next < compute.count)
        lines.push(
          ["until", this.taskName(compute, next)],
          this.waited({ stream: compute, index: next, window: w }),
        );
      return showTip(
        event.clientX,
        event.clientY,
        causeWords[this.page.timeline.causes[w.idle.cause[i]]],
        lines,
      );
    }
    const { waits } = this.device,
      i = firstAbove(waits.finish, t);
    if (i < waits.count && waits.start[i] <= t)
      return showTip(
        event.clientX,
        event.clientY,
        ...this.pipeline.words.describeWait({ device: this.device, wait: i }),
      );
    hideTip();
  }

  taskName(s, i) {
    const d = this.page.detail,
      [name, pass] = d.ops[s.op[i]],
      [microbatch, chunk] = d.scopes[s.scope[i]];
    return (
      name +
      (pass === "step" ? "" : ", " + pass) +
      (s.layer[i] >= 0 ? `, layer ${s.layer[i]}` : "") +
      (microbatch >= 0 ? `, microbatch ${microbatch}` : "") +
      (this.page.timeline.chunks > 1 && microbatch >= 0 ? `, chunk ${chunk}` : "")
    );
  }
  waited({ stream: s, index: i, window: w }) {
    const wait = s.wait[i];
    if (wait === 0) return i === 0 ? null : "Followed the one before it.";
    if (wait < 0) return "Held up by: " + this.page.detail.texts[-wait - 1] + ".";
    const all = this.page.detail.windows.find((v) => v.low === w.low).streams;
    const other = all.find((v) => wait - 1 >= v.first && wait - 1 < v.first + v.count);
    if (!other) return null;
    const device = this.page.timeline.devices.find((d) => d.device === other.device);
    return (
      "Held up by: " +
      this.taskName(other, wait - 1 - other.first) +
      (other.device !== s.device && device ? ` on ${rowName(device)}` : "") +
      "."
    );
  }
  describe(at) {
    const { stream: s, index: i } = at,
      lines = [
        ["starts", seconds(s.start[i])],
        ["takes", seconds(s.finish[i] - s.start[i])],
      ];
    if (s.bare) {
      const bare = s.bare[i].reduce((sum, [a, b]) => sum + b - a, 0);
      lines.push(["under compute", percent(1 - bare / (s.finish[i] - s.start[i]))]);
    }
    lines.push(this.waited(at));
    if (s.critical.has(i)) lines.push("On the critical path.");
    return [this.taskName(s, i), lines];
  }

  /** Tasks of the device in sight, as rows of a table. */
  rows(most) {
    const rows = [];
    for (const w of this.windows)
      for (const s of w.streams)
        for (
          let i = firstAbove(s.finish, this.view.low);
          i < s.count && s.start[i] < this.view.high;
          ++i
        )
          rows.push([
            s.start[i],
            s.stream,
            this.taskName(s, i),
            seconds(s.start[i]),
            seconds(s.finish[i] - s.start[i]),
            this.waited({ stream: s, index: i, window: w }) || "",
          ]);
    rows.sort((a, b) => a[0] - b[0]);
    return { total: rows.length, rows: rows.slice(0, most).map((r) => r.slice(1)) };
  }
}

function passKind(pass) {
  if (pass === "step" || pass === "forward") return pass;
  return pass === "backward weight" ? "backward_weight" : "backward";
}
