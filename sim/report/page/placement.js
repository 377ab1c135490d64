// Where the ranks are: nodes, NVLink domains, leaves; and which of them form a group.
import { Canvas, choice, element, hideTip, showTip, table } from "./element.js";
import { color, count, mix, plural } from "./words.js";

const mostRanks = 16384;

/** Members of the group of `rank`: `steps` are [count, stride], the first fastest. */
export function members(steps, rank) {
  let base = rank;
  for (const [n, stride] of steps) base -= (Math.floor(rank / stride) % n) * stride;
  let list = [base];
  for (const [n, stride] of steps)
    list = Array.from({ length: n }, (_, i) => list.map((r) => r + i * stride)).flat();
  return list.sort((a, b) => a - b);
}

/** Groups of a kind, how many ranks each has, how many straddle NVLink domains and over how many the widest goes. */
export function spread(placement, group) {
  const seen = new Uint8Array(placement.world),
    straddling = new Set();
  let groups = 0,
    widest = 1;
  for (let rank = 0; rank < placement.world; ++rank) {
    if (seen[rank]) continue;
    const list = members(group.steps, rank),
      domains = new Set(list.map((r) => domainOf(placement, r)));
    for (const r of list) seen[r] = 1;
    ++groups;
    widest = Math.max(widest, domains.size);
    if (domains.size > 1) straddling.add(list[0]);
  }
  return { groups, size: group.steps.reduce((n, [k]) => n * k, 1), straddling, widest };
}
export const domainOf = (placement, rank) => Math.floor(rank / placement.nvlink_domain);
export function nodeOf(placement, rank) {
  const block = Math.floor(rank / placement.gpus_per_node);
  return placement.hosts.length > block ? placement.hosts[block] : block;
}

const groupWords = { dp_cp: "dp x cp" };

export class PlacementMap {
  constructor(page, say) {
    this.placement = page.placement;
    this.report = page.report;
    this.say = say;
    this.kind = this.placement.groups.length ? this.placement.groups[0].kind : null;
    this.rank = 0;
    this.over = null;
    this.spreads = new Map(this.placement.groups.map((g) => [g.kind, spread(this.placement, g)]));
    this.chart = new Canvas(
      "Map of ranks in nodes and NVLink domains. Arrow keys go from rank to rank; its group lights up. A table follows.",
      100,
      (g, w, h) => this.draw(g, w, h),
    );
    const { canvas } = this.chart;
    canvas.addEventListener("pointermove", (event) => this.onHover(event));
    canvas.addEventListener("pointerleave", () => {
      this.over = null;
      hideTip();
      this.chart.refresh();
    });
    canvas.addEventListener("click", () => {
      if (this.over !== null) this.turnTo(this.over);
    });
    canvas.addEventListener("keydown", (event) => {
      const step = {
        ArrowRight: 1,
        ArrowLeft: -1,
        ArrowDown: this.placement.gpus_per_node,
        ArrowUp: -this.placement.gpus_per_node,
      }[event.key];
      if (!step) return;
      event.preventDefault();
      this.turnTo(Math.min(this.shown - 1, Math.max(0, this.rank + step)));
    });
    this.box = element("div", { class: "chart" }, canvas);
    this.controls = choice(
      "Kind of group",
      this.placement.groups.map((g) => [
        g.kind,
        groupWords[g.kind] || g.kind,
        `light up ${g.kind} groups`,
      ]),
      this.kind,
      (kind) => {
        this.kind = kind;
        this.turnTo(this.rank);
      },
    );
    this.shown = Math.min(this.placement.world, mostRanks);
  }
  get group() {
    return this.placement.groups.find((g) => g.kind === this.kind);
  }
  turnTo(rank) {
    this.rank = rank;
    this.say(this.describe(rank).flat(2).filter(Boolean).join(", "));
    this.chart.refresh();
  }

  /** Cells of the map: domains hold nodes, nodes hold ranks; as many domains a line as fit. */
  layout(width) {
    const p = this.placement,
      perDomain = p.nvlink_domain,
      cell = this.shown <= 128 ? 22 : this.shown <= 2048 ? 15 : this.shown <= 6144 ? 9 : 6;
    const perLine = perDomain <= 16 ? Math.min(perDomain, p.gpus_per_node) : 12;
    const rows = Math.ceil(perDomain / perLine),
      w = perLine * cell + 10,
      h = rows * cell + 10;
    const domains = Math.ceil(this.shown / perDomain),
      leaf =
        p.tiers.length && p.tiers[0].radix > 0 && p.nvlink_domain <= p.gpus_per_node
          ? p.tiers[0].radix
          : 0;
    let across = Math.max(1, Math.floor((width - 2) / w));
    if (leaf && across > 1) across = leaf % across === 0 ? across : largestDivisor(leaf, across);
    const lines = Math.ceil(domains / across),
      leafGap = leaf && domains > leaf ? 14 : 0;
    const leafOf = (domain) => (leafGap ? Math.floor(domain / leaf) : 0);
    return {
      cell,
      perLine,
      across,
      w,
      h,
      domains,
      leafGap,
      leaf,
      height: lines * h + (leafGap ? Math.ceil(domains / leaf) * leafGap : 0) + 4,
      box: (domain) => ({
        x: (domain % across) * w + 1,
        y: Math.floor(domain / across) * h + (leafGap ? (leafOf(domain) + 1) * leafGap : 0) + 1,
      }),
    };
  }
  draw(g, width) {
    const p = this.placement,
      l = (this.at = this.layout(width));
    if (this.chart.height !== l.height) {
      this.chart.height = l.height;
      return this.chart.refresh();
    }
    const focus = this.over ?? this.rank,
      lit = new Set(this.group ? members(this.group.steps, focus) : []);
    const straddling = this.spreads.get(this.kind)?.straddling ?? new Set(),
      leads = [...lit].length ? Math.min(...lit) : 0;
    const bad = straddling.has(leads);
    for (let domain = 0; domain < l.domains; ++domain) {
      const b = l.box(domain);
      if (l.leafGap && domain % l.leaf === 0) {
        g.fillStyle = color("soft");
        g.font = "11px system-ui, sans-serif";
        g.fillText(
          `${p.tiers[0].name || "leaf"} ${domain / l.leaf}: nodes ${domain} to ${Math.min(l.domains, domain + l.leaf) - 1}`,
          1,
          b.y - 6,
        );
      }
      g.fillStyle = color("sheet");
      g.strokeStyle = color("line");
      g.lineWidth = 1;
      g.fillRect(b.x, b.y, l.w - 4, l.h - 4);
      g.strokeRect(b.x + 0.5, b.y + 0.5, l.w - 5, l.h - 5);
      for (let i = 0; i < p.nvlink_domain; ++i) {
        const rank = domain * p.nvlink_domain + i;
        if (rank >= this.shown) break;
        const x = b.x + 3 + (i % l.perLine) * l.cell,
          y = b.y + 3 + Math.floor(i / l.perLine) * l.cell;
        const stage = p.pp > 1 ? Math.floor(rank / p.stage_stride) % p.pp : 0;
        g.fillStyle = lit.has(rank)
          ? color(bad ? "bad" : "accent")
          : mix(color("ink"), color("sheet"), stage % 2 ? 0.2 : 0.11);
        g.fillRect(x, y, l.cell - 2, l.cell - 2);
        if (rank === focus) {
          g.strokeStyle = color("ink");
          g.lineWidth = 2;
          g.strokeRect(x, y, l.cell - 2, l.cell - 2);
        }
      }
    }
  }
  find(x, y) {
    const l = this.at;
    if (!l) return null;
    for (let domain = 0; domain < l.domains; ++domain) {
      const b = l.box(domain),
        i = Math.floor((x - b.x - 3) / l.cell),
        j = Math.floor((y - b.y - 3) / l.cell);
      if (i < 0 || i >= l.perLine || j < 0 || x < b.x || y < b.y || y > b.y + l.h - 4) continue;
      const at = j * l.perLine + i,
        rank = domain * this.placement.nvlink_domain + at;
      if (at < this.placement.nvlink_domain && rank < this.shown) return rank;
    }
    return null;
  }
  onHover(event) {
    const box = this.chart.canvas.getBoundingClientRect(),
      rank = this.find(event.clientX - box.left, event.clientY - box.top);
    if (rank !== this.over) {
      this.over = rank;
      this.chart.refresh();
    }
    if (rank === null) return hideTip();
    const [heading, lines] = this.describe(rank);
    showTip(event.clientX, event.clientY, heading, lines);
  }
  describe(rank) {
    const p = this.placement,
      lines = [
        ["node", String(nodeOf(p, rank))],
        ["NVLink domain", String(domainOf(p, rank))],
      ];
    if (p.pp > 1) lines.push(["stage", String(Math.floor(rank / p.stage_stride) % p.pp)]);
    if (this.group) {
      const list = members(this.group.steps, rank),
        domains = new Set(list.map((r) => domainOf(p, r)));
      const shown =
        list.length > 16
          ? list.slice(0, 12).join(" ") + " ... " + list[list.length - 1]
          : list.join(" ");
      lines.push(
        [`${groupWords[this.kind] || this.kind} group`, shown],
        domains.size > 1
          ? `Straddles ${domains.size} NVLink domains.`
          : "Inside one NVLink domain.",
      );
    }
    return ["rank " + rank, lines];
  }
  table() {
    return table(
      "Groups and NVLink domains",
      [
        ["group"],
        ["groups", true],
        ["ranks each", true],
        ["straddle", true],
        ["domains of the widest", true],
        ["where"],
      ],
      this.placement.groups.map((g) => {
        const s = this.spreads.get(g.kind),
          n = s.straddling.size;
        return [
          groupWords[g.kind] || g.kind,
          count(s.groups),
          count(s.size),
          element("span", { class: n ? "red" : "" }, count(n)),
          count(s.widest),
          n ? `over the network between ${plural(s.widest, "domain")}` : "inside NVLink domains",
        ];
      }),
    );
  }
}

function largestDivisor(of, most) {
  for (let k = Math.min(of, most); k > 1; --k) if (of % k === 0) return k;
  return 1;
}
