// Communication that no kernel hides.
import { firstAbove } from "./data.js";

/** Of each transfer the parts under no kernel. */
export function withBareParts(window, streams, ops) {
  const compute = streams.find((s) => s.stream === "compute");
  const busy = [];
  if (compute)
    for (let i = 0; i < compute.count; ++i) {
      if (ops[compute.op[i]][2] > 1) continue;
      const last = busy[busy.length - 1];
      if (last && compute.start[i] <= last[1]) last[1] = Math.max(last[1], compute.finish[i]);
      else busy.push([compute.start[i], compute.finish[i]]);
    }
  const ends = Float64Array.from(busy, (b) => b[1]);
  for (const s of streams) {
    if (s === compute) continue;
    s.bare = [];
    for (let i = 0; i < s.count; ++i) {
      const parts = [];
      let at = s.start[i];
      for (let b = firstAbove(ends, at); b < busy.length && busy[b][0] < s.finish[i]; ++b) {
        if (busy[b][0] > at) parts.push([at, busy[b][0]]);
        at = Math.max(at, busy[b][1]);
      }
      if (at < s.finish[i]) parts.push([at, s.finish[i]]);
      s.bare.push(parts);
    }
  }
  return { ...window, streams };
}
