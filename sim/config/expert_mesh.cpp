// The expert mesh and the overlap of its all-to-all
// (megatron/core/parallel_state.py, transformer_config.py, transformer/moe/moe_layer.py;
// Megatron-Bridge models/transformer_config.py, training/comm_overlap.py).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using Kind = Finding::Kind;

void resolve_sizes_of_experts(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  Parallelism& p = scenario.parallel;
  const bool experts = scenario.model.moe.present();
  constexpr Range size_range{1, 1 << 20};
  p.ep = model.integer("expert_model_parallel_size", 1, size_range);
  const auto etp = model.optional_int("expert_tensor_parallel_size", size_range);
  if (p.ep > 1 && !experts) {
    refuse(sections, scenario, model, "expert_model_parallel_size", "ep-needs-experts",
           "needs num_moe_experts: this model is dense; got " + text(p.ep));
    p.ep = 1;
  }
  // Bridge: 1 as soon as EP > 1, else Megatron-Core's default, TP.
  const bool one = sections.dialect == Dialect::bridge && p.ep > 1;
  p.etp = etp ? static_cast<int>(*etp) : !experts || one ? 1 : p.tp;
  p.experts = experts;
  if (!experts) p.etp = 1;
  if (experts && !etp && one && p.tp > 1)
    add_finding(scenario, model, "expert_tensor_parallel_size", "etp-default-is-one", Kind::silent,
                "null", "1",
                "Bridge sets ETP to 1 when EP > 1 and nothing is given; Megatron-Core's default is "
                "TP = " +
                    text(p.tp));
  if (!experts) return;
  scenario.effective["model.expert_model_parallel_size"] = json_text(int64_t{p.ep});
  scenario.effective["model.expert_tensor_parallel_size"] = json_text(int64_t{p.etp});
}

void check_expert_mesh(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const Parallelism& p = scenario.parallel;
  const Moe& moe = scenario.model.moe;
  if (moe.experts % p.ep != 0)
    refuse(sections, scenario, model, "expert_model_parallel_size", "ep-does-not-divide-experts",
           "must divide " + text(moe.experts) + " experts; got " + text(p.ep));
  const int64_t world = scenario.cluster.gpus, product = int64_t{p.pp} * p.ep * p.etp;
  const int64_t dense = int64_t{p.tp} * p.cp, expert = int64_t{p.ep} * p.etp;
  const int64_t smallest = p.pp * std::lcm(dense, expert);
  if (world % product != 0)
    refuse(sections, scenario, sections.cluster, sections.cluster.has("gpus") ? "gpus" : "nodes",
           "expert-world-not-divisible",
           "gives " + text(world) + " GPUs, which is not a multiple of PP x EP x ETP = " +
               text(p.pp) + " x " + text(p.ep) + " x " + text(p.etp) + " = " + text(product) +
               "; the smallest world that fits both meshes is PP x lcm(TP x CP, EP x ETP) = " +
               text(smallest));
  if (dense % expert != 0 && expert % dense != 0)
    add_finding(scenario, model, "expert_model_parallel_size", "meshes-do-not-nest", Kind::advice,
                text(p.ep), text(p.ep),
                "neither TP x CP = " + text(dense) + " nor EP x ETP = " + text(expert) +
                    " divides the other: the smallest world is PP x lcm = " + text(smallest) +
                    ", not PP x max = " + text(p.pp * std::max(dense, expert)));
  // The sizes are factors of one world twice, never of one product.
  const int64_t all = product * p.tp * p.cp;
  if (p.ep > 1 && dense > 1 && world == all && world > smallest)
    add_finding(scenario, sections.cluster, sections.cluster.has("gpus") ? "gpus" : "nodes",
                "five-fold-product", Kind::advice, text(world), text(smallest),
                "the world is the product TP x CP x PP x EP x ETP = " + text(all) +
                    ", which no rule asks for: the dense and the expert mesh share the same ranks, "
                    "so PP x max(TP x CP, EP x ETP) = " +
                    text(p.pp * std::max(dense, expert)) + " GPUs are enough");
  if (p.pp_before_dp && p.edp() != p.dp)
    refuse(sections, scenario, sections.dist, "use_tp_pp_dp_mapping", "rank-order-unsupported",
           "needs equal data parallelism for dense and expert layers; got DP " + text(p.dp) +
               ", expert DP " + text(p.edp()));
  if (p.tp > 1 && !p.sequence_parallel)
    refuse(
        sections, scenario, model, "sequence_parallel", "moe-needs-sequence-parallel",
        "must be true: experts with tensor_model_parallel_size > 1 need it (Megatron-Core raises "
        "in the first forward)");
  if (scenario.model.linear_bias && p.etp > 1)
    refuse(sections, scenario, model, "expert_tensor_parallel_size", "etp-with-bias",
           "must be 1 when linear layers have biases; got " + text(p.etp));
}

/// Not Megatron-Core's schedules, whose combined form merges a forward with a whole backward.
bool merges_nothing(ScheduleKind kind) {
  using enum ScheduleKind;
  return schedule_name(kind).splits && kind != dualpipe && kind != dualpipe_v;
}

/// A switch of experts' overlap that nothing comes of.
void drop_switch(const ScenarioSections& sections, Scenario& scenario, const std::string& key,
                 const std::string& id, const std::string& reason) {
  const bool in_overlap = sections.comm_overlap.present() && sections.comm_overlap.has(key);
  add_finding(scenario, in_overlap ? sections.comm_overlap : sections.model, key, id,
              Finding::Kind::silent, "true", "false", reason);
  scenario.effective["model." + key] = json_text(false);
}

/// comm_overlap.py, _get_model_comm_overlap_cfgs and its assertions, re-checked by Megatron-Core.
void resolve_all_to_all_overlap(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const std::string key = "overlap_moe_expert_parallel_comm";
  const Reader& asked = sections.comm_overlap.present() ? sections.comm_overlap : model;
  bool overlap = written_switch(scenario, sections, model, key, false, false);
  bool delay = written_switch(scenario, sections, model, "delay_wgrad_compute", false, false);
  scenario.effective["model." + key] = json_text(overlap);
  scenario.effective["model.delay_wgrad_compute"] = json_text(delay);
  if (overlap && merges_nothing(scenario.schedule)) {
    const std::string reason = "'" + std::string(name(scenario.schedule)) +
                               "' runs the halves of a backward apart, and the combined schedule "
                               "merges a forward with a whole one";
    drop_switch(sections, scenario, key, "ep-overlap-needs-whole-backwards", reason);
    if (delay)
      drop_switch(sections, scenario, "delay_wgrad_compute", "delayed-wgrad-needs-ep-overlap",
                  "without the combined schedule nothing is put off: " + reason);
    overlap = delay = false;
  }
  scenario.moe_runtime.overlap_ep = overlap;
  scenario.moe_runtime.delay_wgrad = delay && overlap;
  const auto no = [&](const std::string& id, const std::string& reason) {
    refuse(sections, scenario, asked, key, id, reason);
  };
  if (delay && !overlap)
    refuse(sections, scenario, asked, "delay_wgrad_compute", "delayed-wgrad-needs-ep-overlap",
           "needs overlap_moe_expert_parallel_comm");
  const std::string dispatch_key = "overlap_dispatch_backward_with_experts_wgrad";
  if (scenario.moe_runtime.overlap_dispatch_backward && (delay || overlap))
    refuse(sections, scenario, model, dispatch_key, "dispatch-overlap-has-one-form",
           "cannot be combined with overlap_moe_expert_parallel_comm or delay_wgrad_compute");
  const std::string early_key = "ep_overlap_early_attn_memory_release";
  if (model.boolean(early_key, false) && !overlap)
    refuse(sections, scenario, model, early_key, "early-release-needs-ep-overlap",
           "needs overlap_moe_expert_parallel_comm");
  if (!overlap && scenario.moe_runtime.high_priority_stream) {
    scenario.moe_runtime.high_priority_stream = false;
    drop_switch(sections, scenario, "high_priority_a2a_comm_stream",
                "a2a-priority-needs-ep-overlap",
                "only the combined schedule of overlap_moe_expert_parallel_comm has a stream that "
                "it could raise");
  }
  if (!overlap) return;
  const Parallelism& p = scenario.parallel;
  if (!scenario.model.moe.present()) return no("ep-overlap-needs-experts", "needs experts");
  if (p.ep < 2) no("ep-overlap-needs-ep", "needs expert_model_parallel_size > 1; got 1");
  if (scenario.moe_runtime.dispatcher == Dispatcher::allgather)
    no("ep-overlap-needs-all-to-all",
       "needs moe_token_dispatcher_type alltoall or flex; got allgather");
  if (p.pp > 1 && !p.vp)
    no("ep-overlap-needs-vp", "needs virtual_pipeline_model_parallel_size when PP > 1");
  if (model.string("recompute_granularity", "") == "full" || model.has("recompute_method") ||
      model.has("recompute_num_layers"))
    no("ep-overlap-excludes-full-recompute",
       "cannot be combined with full recompute (recompute_granularity full, recompute_method, "
       "recompute_num_layers)");
  const std::vector<std::string> modules = model.strings("recompute_modules");
  if (std::find(modules.begin(), modules.end(), "moe") != modules.end())
    no("ep-overlap-excludes-moe-recompute", "cannot be combined with recompute_modules moe");
  if (scenario.moe_runtime.shared_overlap)
    no("ep-overlap-excludes-shared-overlap", "cannot be combined with moe_shared_expert_overlap");
  if (scenario.model.mtp_layers > 1)
    no("ep-overlap-one-mtp",
       "allows at most one prediction module; got " + text(scenario.model.mtp_layers));
}

}  // namespace

void resolve_experts(const ScenarioSections& sections, Scenario& scenario) {
  resolve_sizes_of_experts(sections, scenario);
  if (scenario.model.moe.present()) {
    check_expert_mesh(sections, scenario);
    resolve_moe_runtime(sections, scenario);
  }
  resolve_all_to_all_overlap(sections, scenario);
}

}  // namespace stepsim
