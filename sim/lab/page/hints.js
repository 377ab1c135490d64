// The values that a control offers, from the step that is shown, and what moves along with one.
import { valueAt } from "./state.js";

export const powers = (most) =>
  Array.from({ length: 1 + Math.floor(Math.log2(most)) }, (_, i) => 2 ** i);
export const counting = (most) => Array.from({ length: most }, (_, i) => i + 1);
export const divisors = (of) => counting(of).filter((k) => of % k === 0);
export const doublings = (from, to) => {
  const list = [];
  for (let v = from; v <= to * 1.0001; v *= 2) list.push(v);
  return list;
};
/** 0.25 ms, 0.5 ms, ... in seconds. */
export const milliseconds = (list) => list.map((v) => v / 1000);

/** How the GPUs are split, with one of the sizes changed. */
function split({ report, title }, change = {}) {
  const { tp, pp, cp, vp, world } = report.mesh;
  const s = { tp, pp, cp, vp: vp ?? 1, gpus: world, micro: title.micro_batch, ...change };
  return { ...s, dp: title.given_costs ? 1 : s.gpus / (s.tp * s.pp * s.cp) };
}
/** Of `values` for `size` those that leave a whole number of data-parallel copies. */
const wholeCopies = (now, size, values) =>
  values.filter((v) => Number.isInteger(split(now, { [size]: v }).dp));

export const ranksOf = (size, most) => (now) => wholeCopies(now, size, powers(most));
export const stagesOf = (now) =>
  now.title.given_costs
    ? counting(16)
    : wholeCopies(now, "pp", powers(64)).filter((v) => v <= now.title.layers);
export const nodesOf = (now) =>
  powers(256).filter((n) => Number.isInteger(split(now, { gpus: n * now.title.gpus_per_node }).dp));
export const gpusOf = (now) => wholeCopies(now, "gpus", powers(64));
export const expertRanksOf = (now) =>
  powers(64).filter((v) => (now.report.mesh.dp * now.report.mesh.cp) % v === 0);

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

/** The global batch stays, as in Megatron, unless it is no whole number of microbatches any more. */
export function besideSplit(now, change) {
  const s = split(now, change),
    batch = now.title.global_batch,
    each = s.micro * s.dp * (s.vp > 1 ? s.pp : 1);
  if (batch % each === 0) return {};
  return { "train.global_batch_size": String(Math.max(1, Math.round(batch / each)) * each) };
}

/** What moves along when the number of stages does, so that the layers can still be dealt out. */
export function besideStages(now, stages) {
  const { vp } = now.report.mesh,
    chunks = "model.virtual_pipeline_model_parallel_size";
  let chosen = vp ?? 1;
  if (stages === 1) chosen = 1;
  else if (!now.title.given_costs && now.title.layers % (stages * chosen) !== 0) {
    const fitting = divisors(Math.floor(now.title.layers / stages)).filter((k) => k <= chosen);
    chosen = Math.max(1, ...fitting);
  }
  return {
    ...(chosen === (vp ?? 1) ? {} : { [chunks]: chosen > 1 ? String(chosen) : "null" }),
    ...besideSplit(now, { pp: stages, vp: chosen }),
  };
}

/** Schedules that split the backward need the times of its halves. */
export function besideSchedule({ document, title }, schedule) {
  const whole = valueAt(document, "costs.backward_seconds");
  if (!title.given_costs || typeof whole !== "number" || !/^zb_|^dualpipe/.test(schedule))
    return {};
  return {
    "costs.backward_seconds": "null",
    "costs.backward_input_seconds": String(whole / 2),
    "costs.backward_weight_seconds": String(whole / 2),
  };
}
