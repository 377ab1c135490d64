// Mesh sizes, batch and the checks of Megatron-Core and Megatron-Bridge on them
// (megatron/core/parallel_state.py, transformer_config.py, pipeline_parallel/schedules.py).
#include <algorithm>

#include "sim/config/model_read.h"
#include "sim/config/read.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

constexpr Range size_range{1, 1 << 20};
constexpr Range chunk_range{1, 255};  // a task's label holds the chunk in eight bits

void read_mesh(const ScenarioSections& sections, Scenario& scenario) {
  Parallelism& p = scenario.parallel;
  const Reader& model = sections.model;
  p.tp = model.integer("tensor_model_parallel_size", 1, size_range);
  p.pp = model.integer("pipeline_model_parallel_size", 1, size_range);
  p.cp = model.integer("context_parallel_size", 1, size_range);
  if (const auto vp = model.optional_int("virtual_pipeline_model_parallel_size", chunk_range)) {
    if (p.pp < 2)
      refuse(sections, scenario, model, "virtual_pipeline_model_parallel_size", "vp-needs-pp",
             "needs pipeline_model_parallel_size > 1; got VP " + text(*vp) + ", PP " + text(p.pp));
    else if (*vp == 1 && sections.dialect == Dialect::megatron_lm)
      add_finding(scenario, model, "virtual_pipeline_model_parallel_size", "mlm-vp-one-is-none",
                  Finding::Kind::silent, "1", "null",
                  "one chunk is no interleaving for Megatron-LM: it clears VP = 1");
    else
      p.vp = static_cast<int>(*vp);
  }
  p.pp_before_dp = sections.dist.boolean("use_tp_pp_dp_mapping", false);
  p.account_for_embedding = model.boolean("account_for_embedding_in_pipeline_split", false);
  p.account_for_loss = model.boolean("account_for_loss_in_pipeline_split", false);
  if (const auto n = model.optional_int("num_layers_in_first_pipeline_stage", layers_range))
    p.first_stage_layers = static_cast<int>(*n);
  if (const auto n = model.optional_int("num_layers_in_last_pipeline_stage", layers_range))
    p.last_stage_layers = static_cast<int>(*n);
}

}  // namespace

void resolve_sizes(const ScenarioSections& sections, Scenario& scenario, bool given_costs) {
  Parallelism& p = scenario.parallel;
  const Reader& model = sections.model;
  read_mesh(sections, scenario);
  const int64_t product = int64_t{p.tp} * p.pp * p.cp;  // each is at most 2^20
  if (sections.no_machine()) {
    constexpr int64_t most = 1 << 20;
    if (product > most)
      model.fail("pipeline_model_parallel_size",
                 "TP x PP x CP = " + text(product) + " ranks; the limit is " + text(most));
    scenario.cluster.gpus = static_cast<int>(product);
    scenario.cluster.nodes = static_cast<int>((product + 7) / 8);
  }
  const int64_t world = scenario.cluster.gpus;
  if (world % product != 0) {
    const int64_t lower = world / product * product;
    std::string advice = lower > 0 ? "the nearest worlds that fit are " + text(lower) + " and "
                                   : "the nearest world that fits is ";
    advice += text(lower + product);
    const char* key = sections.cluster.has("gpus") ? "gpus" : "nodes";
    refuse(sections, scenario, sections.cluster, key, "world-not-divisible",
           "gives " + text(world) +
               " GPUs, which is not a multiple of TP x PP x CP = " + text(p.tp) + " x " +
               text(p.pp) + " x " + text(p.cp) + " = " + text(product) + "; " + advice +
               " (DP is what is left over, and EP divides DP x CP: neither multiplies the world)");
  }
  p.dp = static_cast<int>(std::max<int64_t>(1, world / product));
  p.sequence_parallel = model.boolean("sequence_parallel", false);
  if (p.sequence_parallel && p.tp == 1) {
    p.sequence_parallel = false;
    add_finding(scenario, model, "sequence_parallel", "sequence-parallel-needs-tp",
                Finding::Kind::silent, "true", "false",
                "sequence parallelism splits activations over tensor-parallel ranks and TP is 1; "
                "Bridge clears it when it finalizes the model");
  }
  scenario.effective["model.sequence_parallel"] = json_text(p.sequence_parallel);

  Batch& batch = scenario.batch;
  batch.global = sections.train.required_int("global_batch_size", {1, 1'000'000'000});
  batch.micro = sections.train.integer("micro_batch_size", 1, {1, 1 << 20});
  const int64_t wave = batch.micro * p.dp, rest = batch.global % wave;
  if (sections.train.boolean("decrease_batch_size_if_needed", false) && rest != 0 &&
      batch.global > wave) {
    batch.global -= rest;
    add_finding(scenario, sections.train, "global_batch_size", "batch-rounded-down",
                Finding::Kind::silent, text(batch.global + rest), text(batch.global),
                "decrease_batch_size_if_needed rounds down to a multiple of micro_batch_size x DP "
                "= " +
                    text(wave));
  }
  if (batch.global % wave != 0)
    refuse(sections, scenario, sections.train, "global_batch_size", "batch-not-divisible",
           "must be a multiple of micro_batch_size x DP = " + text(batch.micro) + " x " +
               text(p.dp) + " = " + text(batch.micro * p.dp) + "; got " + text(batch.global));
  batch.microbatches = std::max<int64_t>(1, batch.global / (batch.micro * p.dp));
  constexpr Range sequence_range{1, int64_t{1} << 32};
  const char* length =
      sections.dataset.has("sequence_length") && !sections.dataset.has("seq_length")
          ? "sequence_length"
          : "seq_length";
  const auto from_data = sections.dataset.optional_int(length, sequence_range);
  const auto from_model = model.optional_int("seq_length", sequence_range);
  if (from_data && from_model && *from_data != *from_model)
    refuse(sections, scenario, model, "seq_length", "sequence-lengths-differ",
           "must equal dataset.seq_length " + text(*from_data) + "; got " + text(*from_model));
  if (!from_data && !from_model && !given_costs)
    sections.dataset.fail("seq_length", "is missing; expected an integer");
  batch.sequence = from_data.value_or(from_model.value_or(0));
}

namespace {

/// Layers of the fullest stage (sim/parallel/stages.h splits them).
int most_layers(const Parallelism& p, int layers) {
  if (!p.layout.empty()) {
    std::vector<int> by_rank(static_cast<size_t>(p.pp));
    for (size_t v = 0; v < p.layout.size(); ++v) by_rank[v % by_rank.size()] += p.layout[v].layers;
    return *std::max_element(by_rank.begin(), by_rank.end());
  }
  const int first = p.first_stage_layers.value_or(0), last = p.last_stage_layers.value_or(0);
  const int given = int{p.first_stage_layers.has_value()} + int{p.last_stage_layers.has_value()};
  const int others = p.pp - given;
  const int middle = others > 0 ? (layers + 2 - first - last) / others + 1 : 0;
  return std::min(layers, std::max({first, last, middle}));
}

/// Tasks of one layer's forward and backward. A collective is one task, or three where members of
/// its group are simulated apart: each arrives, and all meet.
double layer_tasks(const Scenario& s, double collective) {
  const Parallelism& p = s.parallel;
  const bool fp8 = s.precision.fp8 != Fp8Recipe::none;
  const int qk = s.model.qk_norm ? 2 : 0, dropout = s.model.hidden_dropout ? 2 : 0;
  // Kernels and one launch for all of them; four linears, QKV, attention ring.
  double forward = 12 + qk + (fp8 ? 5 : 0), backward = 16 + qk + dropout + (fp8 ? 4 : 0);
  if (p.tp > 1) forward += 5 * collective, backward += 7 * collective;
  int pieces = 1;
  if (s.overlap.tp_comm_overlap) {
    pieces = p.tp;
    for (const TpOverlap& gemm : s.overlap.tp) pieces = std::max(pieces, gemm.num_splits);
    forward += 4 * pieces * (1 + collective), backward += 2 * pieces * (1 + collective);
  }
  const double ring = p.cp > 1 ? p.cp * (1 + collective) : 0;
  forward += ring, backward += ring;
  // An adapter's products, scaling, dropout and sum; its collectives.
  const Adapters& a = s.adapters;
  const int adapters = int{a.qkv} + int{a.proj} + int{a.fc1} + int{a.fc2};
  if (a.present()) forward += 5 * adapters, backward += 7 * adapters;
  if (a.present() && p.tp > 1)
    forward += 2 * adapters * collective, backward += 2 * adapters * collective;
  // A copy each way and its launch.
  if (s.module_offload.any()) forward += 2, backward += 2;
  if (s.recompute != Recompute::modules) return 2 * forward + backward;
  double again = s.recompute_modules.core_attn ? std::max(1.0, ring) : 0;
  if (s.recompute_modules.mlp)  // norm, two linears of `pieces`, activation, casts; the last sum
    again += 5 + (fp8 ? 2 : 0) + 2 * (pieces - 1) + (p.tp > 1 ? 2 * pieces * collective : 0);
  return forward + backward + again;
}

/// Tasks of the buckets that a bucket size cuts the first chunk into: no more than it has tensors.
double bucket_tasks(const Scenario& s, double devices) {
  const Parallelism& p = s.parallel;
  if (!s.overlap.overlap_grad_reduce || !s.data_parallel.bucket_size) return 0;
  constexpr double tensors_per_layer = 16, tensors_of_ends = 6, tasks_per_bucket = 10;
  const double tensors = most_layers(p, s.model.layers) * tensors_per_layer + tensors_of_ends;
  const double filled = static_cast<double>(parameter_count(s.model, p.tp)) /
                        static_cast<double>(*s.data_parallel.bucket_size);
  return devices * tasks_per_bucket * std::min(tensors, filled + 4);
}

}  // namespace

double estimated_tasks(const Scenario& scenario, int64_t device_count) {
  // Upper bounds (checked against what lowering makes, tests/laws).
  const Parallelism& p = scenario.parallel;
  const auto devices = static_cast<double>(device_count);
  const bool apart = device_count > p.pp;  // then any stage may have most of the devices
  const double collective = p.tp * p.cp * p.dp > 1 && apart ? 3 : 1;
  const double chunks = devices * p.chunks();
  // Two updates on the host at most, each in 32 pieces of two copies, their launches and an update.
  const HostOptimizer& host = scenario.host_optimizer;
  const double step = 100 * chunks + (host.any() ? devices * 10 * (host.overlap ? 32 : 1) : 0);
  const auto microbatches = static_cast<double>(scenario.batch.microbatches);
  // Two passes, one of them in halves, and two transfers, which are asynchronous.
  const double delays = scenario.faults.ranks.empty() ? 0 : 2;
  const int passes = schedule_name(scenario.schedule).splits || !scenario.order.empty() ? 3 : 2;
  if (scenario.costs) return microbatches * chunks * (passes + 2 + delays) + step;
  // Two transfers, an arrival and its launch at both ends of each, and waits of the host.
  const double messages = p.pp > 1 ? 14 : 0;
  const double embedding = 6 + 2 * collective, head = 15 + 7 * collective;
  const double ends = !apart      ? embedding + head
                      : p.pp == 1 ? devices * (embedding + head)
                                  : devices * head;
  const double layers = apart ? devices * most_layers(p, scenario.model.layers)
                              : static_cast<double>(scenario.model.layers);
  // Two gathers and two stages of a reduction a unit, each with its launch; once a step one more.
  const bool units = scenario.data_parallel.fully_sharded != FullySharded::none;
  const double sent = units ? (p.experts ? 10 : 5) * (1 + collective) : 0;
  return microbatches * (layers * (layer_tasks(scenario, collective) + sent) +
                         chunks * (messages + delays + 2 * sent) + ends) +
         step + bucket_tasks(scenario, apart && p.pp > 1 ? devices : devices / p.pp);
}

void check_task_count(const ScenarioSections& sections, const Scenario& scenario) {
  // Symmetric ranks are simulated once: PP devices and not the world.
  const double tasks = estimated_tasks(scenario, scenario.parallel.pp);
  if (tasks > static_cast<double>(most_tasks))
    sections.train.fail("global_batch_size", "asks for about " +
                                                 text(static_cast<int64_t>(std::min(tasks, 1e18))) +
                                                 " tasks (" + text(scenario.batch.microbatches) +
                                                 " microbatches on " + text(scenario.parallel.pp) +
                                                 " stages); the limit is " + text(most_tasks));
}

}  // namespace stepsim
