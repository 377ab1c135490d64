// The rows of the controls: each names a key of the scenario, the values it offers and where its value is read from.
import { count, seconds } from "./words.js";
import { valueAt } from "./state.js";
import {
  besideSchedule,
  besideSplit,
  besideStages,
  chunksOf,
  counting,
  doublings,
  expertRanksOf,
  gpusOf,
  microbatchesOf,
  milliseconds,
  nodesOf,
  powers,
  ranksOf,
  stagesOf,
} from "./hints.js";

const real = (now) => !now.title.given_costs;
const given = (now) => now.title.given_costs;
const experts = (now) => now.title.experts;
const several = (now) => real(now) && now.report.counts.gpus > 1;
const piped = (now) => now.report.mesh.pp > 1;
const wholeGpus = (now) => Boolean(valueAt(now.document, "cluster.gpus"));
const effective = (key) => (now) => now.report.effective[key];
const none = "none";
const bandwidthFactors = doublings(1 / 8, 8);

/** What a factor makes of a quantity: "400 Gb/s" x 0.5 is "200 Gb/s". */
function scaled(quantity, factor) {
  const [, number, unit] = /^\s*([0-9.]+)(.*)$/.exec(quantity);
  return `${Number((Number(number) * factor).toPrecision(4))}${unit}`;
}
const linkWords = (factor, quantity) =>
  quantity ? scaled(quantity, factor) + (factor === 1 ? "" : ` (x ${factor})`) : `x ${factor}`;
const gpuTimes = milliseconds([0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]);
const sendTimes = milliseconds([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2]);
const costs = (key) => (now) => {
  const value = valueAt(now.document, "costs." + key);
  return typeof value === "number" ? value : undefined;
};
const hasCost = (key) => (now) => given(now) && costs(key)(now) !== undefined;

/**
 * `value(now)` is shown, among what `slide(now)`, `pick(now)` or `flag(now)` (what is in effect) offer; `text` says it.
 * `word(value, now)` is what is written behind "key=" ("value" by default), `beside(value, now)` what moves along, by key.
 */
export const controlGroups = [
  {
    title: "Model and machine",
    rows: [
      {
        id: "model",
        key: "model.hf_config",
        label: "Model",
        pick: (now, sources) => sources.models,
        value: (now) => valueAt(now.document, "model.hf_config") ?? now.title.model,
        when: real,
      },
      {
        id: "cluster",
        key: "cluster.system",
        label: "Cluster",
        pick: (now, sources) => sources.systems,
        value: (now) => now.system,
        when: real,
      },
      {
        id: "nodes",
        key: "cluster.nodes",
        label: "Nodes",
        slide: nodesOf,
        beside: (value, now) => besideSplit(now, { gpus: value * now.title.gpus_per_node }),
        value: (now) => now.title.nodes,
        when: (now) => real(now) && !wholeGpus(now),
      },
      {
        id: "gpus",
        key: "cluster.gpus",
        label: "GPUs",
        slide: gpusOf,
        beside: (value, now) => besideSplit(now, { gpus: value }),
        value: (now) => now.report.counts.gpus,
        when: (now) => real(now) && wholeGpus(now),
      },
    ],
  },
  {
    title: "Parallelism",
    rows: [
      {
        id: "tp",
        key: "model.tensor_model_parallel_size",
        label: "TP",
        hint: "ranks that share each layer's matrices",
        slide: ranksOf("tp", 32),
        beside: (value, now) => besideSplit(now, { tp: value }),
        value: (now) => now.report.mesh.tp,
        when: several,
      },
      {
        id: "pp",
        key: "model.pipeline_model_parallel_size",
        label: "PP",
        hint: "stages of the pipeline",
        slide: stagesOf,
        value: (now) => now.report.mesh.pp,
        beside: (value, now) => besideStages(now, value),
        when: (now) => given(now) || several(now),
      },
      {
        id: "vp",
        key: "model.virtual_pipeline_model_parallel_size",
        label: "VP",
        hint: "chunks of each stage",
        slide: chunksOf,
        beside: (value, now) => besideSplit(now, { vp: value }),
        value: (now) => now.report.mesh.vp ?? 1,
        text: (value) => (value === 1 ? none : String(value)),
        word: (value) => (value === 1 ? "null" : String(value)),
        when: piped,
      },
      {
        id: "cp",
        key: "model.context_parallel_size",
        label: "CP",
        hint: "ranks that share one sequence",
        slide: ranksOf("cp", 32),
        beside: (value, now) => besideSplit(now, { cp: value }),
        value: (now) => now.report.mesh.cp,
        when: several,
      },
      {
        id: "ep",
        key: "model.expert_model_parallel_size",
        label: "EP",
        hint: "ranks that share the experts",
        slide: expertRanksOf,
        value: (now) => now.report.mesh.ep ?? 1,
        when: (now) => several(now) && experts(now),
      },
      {
        id: "dp",
        label: "DP",
        hint: "what is left of the GPUs: copies that average gradients",
        value: (now) => now.report.mesh.dp,
        when: several,
      },
    ],
  },
  {
    title: "Batch",
    rows: [
      {
        id: "microbatches",
        key: "train.global_batch_size",
        label: "Microbatches",
        hint: "that go through the pipeline one after the other",
        slide: microbatchesOf,
        value: (now) => now.report.mesh.microbatches,
        word: (value, now) => String(value * now.title.micro_batch * now.report.mesh.dp),
      },
      {
        id: "mbs",
        key: "train.micro_batch_size",
        label: "Microbatch size",
        slide: () => powers(16),
        beside: (value, now) => besideSplit(now, { micro: value }),
        value: (now) => now.title.micro_batch,
        when: real,
      },
      {
        id: "sequence",
        key: "dataset.seq_length",
        label: "Sequence",
        hint: "tokens of one sample",
        slide: () => doublings(1024, 131072),
        value: (now) => now.title.sequence,
        text: count,
        when: real,
      },
      { id: "gbs", label: "Global batch", value: (now) => now.title.global_batch, text: count },
    ],
  },
  {
    title: "Schedule",
    rows: [
      {
        id: "schedule",
        key: "pipeline.schedule",
        label: "Schedule",
        pick: () => [
          "gpipe",
          "1f1b",
          "interleaved",
          "zb_h1",
          "zb_h2",
          "zb_1p",
          "zb_2p",
          "zb_v",
          "dualpipe",
          "dualpipe_v",
        ],
        value: (now) => now.report.mesh.schedule,
        beside: (value, now) => besideSchedule(now, value),
        when: piped,
      },
      {
        id: "recompute",
        key: "model.recompute_granularity",
        label: "Recompute",
        pick: () => [none, "selective", "full"],
        value: (now) => now.report.effective["model.recompute_granularity"] ?? none,
        word: (value) => (value === none ? "null" : value),
        beside: (value) => ({
          "model.recompute_method": value === "full" ? "uniform" : "null",
          "model.recompute_num_layers": value === "full" ? "1" : "null",
        }),
        when: real,
      },
      {
        id: "precision",
        key: "mixed_precision",
        label: "Precision",
        pick: () => [
          "bf16_mixed",
          "bf16_with_fp8_current_scaling_mixed",
          "bf16_with_fp8_delayed_scaling_mixed",
          "bf16_with_mxfp8_mixed",
          "bf16_with_nvfp4_mixed",
        ],
        value: effective("mixed_precision"),
        text: (value) => value.replace(/_mixed$/, "").replaceAll("_", " "),
        when: real,
      },
      {
        id: "forward",
        key: "costs.forward_seconds",
        label: "Forward",
        slide: () => gpuTimes,
        value: costs("forward_seconds"),
        text: seconds,
        when: hasCost("forward_seconds"),
      },
      {
        id: "backward",
        key: "costs.backward_seconds",
        label: "Backward",
        slide: () => gpuTimes,
        value: costs("backward_seconds"),
        text: seconds,
        when: hasCost("backward_seconds"),
      },
      {
        id: "input",
        key: "costs.backward_input_seconds",
        label: "Input half",
        slide: () => gpuTimes,
        value: costs("backward_input_seconds"),
        text: seconds,
        when: hasCost("backward_input_seconds"),
      },
      {
        id: "weight",
        key: "costs.backward_weight_seconds",
        label: "Weight half",
        slide: () => gpuTimes,
        value: costs("backward_weight_seconds"),
        text: seconds,
        when: hasCost("backward_weight_seconds"),
      },
      {
        id: "send",
        key: "costs.p2p_seconds",
        label: "Message",
        hint: "time of a transfer between stages",
        slide: () => sendTimes,
        value: (now) => costs("p2p_seconds")(now) ?? 0,
        text: seconds,
        when: (now) => given(now) && piped(now),
      },
    ],
  },
  {
    title: "Overlap",
    rows: [
      {
        id: "sp",
        key: "model.sequence_parallel",
        label: "Sequence parallelism",
        flag: effective("model.sequence_parallel"),
        when: (now) => several(now) && now.report.mesh.tp > 1,
      },
      {
        id: "tp-overlap",
        key: "comm_overlap.tp_comm_overlap",
        label: "TP under its GEMMs",
        flag: effective("model.tp_comm_overlap"),
        when: (now) => several(now) && now.report.mesh.tp > 1,
      },
      {
        id: "pp-overlap",
        key: "comm_overlap.overlap_p2p_comm",
        label: "PP messages",
        flag: effective("model.overlap_p2p_comm"),
        when: (now) => several(now) && piped(now),
      },
      {
        id: "ep-overlap",
        key: "comm_overlap.overlap_moe_expert_parallel_comm",
        label: "EP dispatch under another microbatch",
        flag: effective("model.overlap_moe_expert_parallel_comm"),
        when: (now) => several(now) && experts(now),
      },
      {
        id: "sharded",
        key: "ddp.use_distributed_optimizer",
        label: "Sharded optimizer",
        flag: effective("ddp.use_distributed_optimizer"),
        when: several,
      },
      {
        id: "grads",
        key: "comm_overlap.overlap_grad_reduce",
        label: "Gradients under backward",
        flag: effective("ddp.overlap_grad_reduce"),
        when: several,
      },
      {
        id: "params",
        key: "comm_overlap.overlap_param_gather",
        label: "Parameters under forward",
        flag: effective("ddp.overlap_param_gather"),
        when: several,
      },
      {
        id: "bucket",
        key: "comm_overlap.bucket_size",
        label: "Bucket",
        hint: "gradients reduced together, in elements",
        slide: () => doublings(5e6, 1.28e9).concat(4e9),
        value: (now) => now.report.effective["ddp.bucket_size"] ?? 4e9,
        text: (value) => `${Number((value / 1e6).toPrecision(3))} million`,
        when: several,
      },
    ],
  },
  {
    title: "Links",
    rows: [
      {
        id: "nic",
        link: "nic",
        label: "Each NIC",
        slide: () => bandwidthFactors,
        value: (now) => now.state.nic,
        text: (value, now) => linkWords(value, now.links && now.links.described.nic_rate),
        when: (now) => several(now) && now.links,
      },
      {
        id: "nvlink",
        link: "nvlink",
        label: "NVLink of a GPU",
        slide: () => bandwidthFactors,
        value: (now) => now.state.nvlink,
        text: (value, now) =>
          linkWords(value, now.links && now.links.gpu.nvlink && now.links.gpu.nvlink.bandwidth),
        when: (now) => several(now) && now.links && now.links.gpu.nvlink,
      },
    ],
  },
];
