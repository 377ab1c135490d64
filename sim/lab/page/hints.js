// The values that a control offers, from the step that is shown.

export const powers = (most) =>
  Array.from({ length: 1 + Math.floor(Math.log2(most)) }, (_, i) => 2 ** i);
export const counting = (most) => Array.from({ length: most }, (_, i) => i + 1);
export const divisors = (of) => counting(of).filter((k) => of % k === 0);

/** Chunks of a stage that its layers can be dealt into. */
export function chunksOf({ title, report }) {
  if (title.given_costs) return counting(8);
  const layers = Math.floor(title.layers / report.mesh.pp);
  return report.mesh.pp > 1 && layers > 0 ? divisors(layers).filter((k) => k <= 24) : [1];
}

/** Microbatches; interleaved schedules want multiples of the stages. */
export function microbatchesOf({ title, report }) {
  const { vp, pp } = report.mesh,
    each = vp > 1 ? pp : 1;
  const list = title.given_costs
    ? counting(64)
    : [...counting(8), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256];
  return [...new Set(list.map((m) => Math.ceil(m / each) * each))];
}

/** What moves along when the number of stages does, so that the layers can still be dealt out. */
export function besideStages(now, stages) {
  const { vp } = now.report.mesh;
  if (!vp) return {};
  const chunks = "model.virtual_pipeline_model_parallel_size";
  if (stages === 1) return { [chunks]: "null" };
  if (now.title.given_costs || now.title.layers % (stages * vp) === 0) return {};
  const fitting = divisors(Math.floor(now.title.layers / stages)).filter((k) => k <= vp);
  const chosen = fitting.length ? Math.max(...fitting) : 1;
  return { [chunks]: chosen > 1 ? String(chosen) : "null" };
}

/** Schedules that split the backward need the times of its halves. */
export function besideSchedule({ document, title }, schedule) {
  const whole = document.costs && document.costs.backward_seconds;
  if (!title.given_costs || typeof whole !== "number" || !/^zb_|^dualpipe/.test(schedule))
    return {};
  return {
    "costs.backward_seconds": "null",
    "costs.backward_input_seconds": String(whole / 2),
    "costs.backward_weight_seconds": String(whole / 2),
  };
}

export const times2 = (from, to) => {
  const list = [];
  for (let v = from; v <= to * 1.0001; v *= 2) list.push(v);
  return list;
};

/** 0.25 ms, 0.5 ms, ... in seconds. */
export const milliseconds = (list) => list.map((v) => v / 1000);
