// What CUDA graphs may not hold (Megatron-Core transformer_config.py, __post_init__;
// Megatron-Bridge utils/cuda_graph.py, training/config.py, models/gpt_provider.py).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/config/graphs.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

constexpr char graph_impl[] = "cuda_graph_impl", graph_scope[] = "cuda_graph_scope";

/// Of graphs around parts of layers.
void check_graph_scope(const ScenarioSections& sections, Scenario& scenario, const Graphs& graphs) {
  const Moe& experts = scenario.model.moe;
  const MoeRuntime& moe = scenario.moe_runtime;
  const bool whole = graphs.captures("moe"), router = graphs.captures("moe_router"),
             preprocess = graphs.captures("moe_preprocess");
  const auto no = [&](const std::string& id, const std::string& reason) {
    refuse(sections, scenario, sections.model, graph_scope, id, reason);
  };
  if (whole && router)
    no("graph-scope-moe-twice", "must not hold both moe and moe_router: the one is in the other");
  if (preprocess && !router)
    no("graph-preprocess-needs-router", "moe_preprocess needs moe_router beside it");
  if (!experts.present()) {
    if (whole || router) no("graph-scope-needs-experts", "moe and moe_router need experts");
    return;
  }
  const bool dense =
      std::find(experts.layers.begin(), experts.layers.end(), false) != experts.layers.end();
  if (graphs.captures("mlp") && !dense)
    no("graph-scope-needs-dense-layers", "mlp needs a layer without experts; this model has none");
  const bool padded = moe.capacity_factor && moe.pad_to_capacity;
  if (whole && !padded)
    no("graph-moe-needs-padding",
       "moe needs moe_expert_capacity_factor and moe_pad_expert_input_to_capacity: the sizes in a "
       "graph are fixed");
  const bool fp8_padding = sections.model.boolean("moe_router_padding_for_fp8", false);
  if (preprocess && !padded && moe.dispatcher == Dispatcher::alltoall &&
      (moe.capacity_factor || fp8_padding))
    no("graph-preprocess-synchronises",
       "moe_preprocess cannot be captured with alltoall and a capacity factor or padding for fp8: "
       "it copies counts to the host");
}

/// A second forward inside a graph draws no random numbers.
void check_graphed_recompute(const ScenarioSections& sections, Scenario& scenario,
                             const Graphs& graphs) {
  const Reader& model = sections.model;
  const RecomputeModules& modules = scenario.recompute_modules;
  const std::string granularity = model.string("recompute_granularity", "");
  const double attention_dropout = model.number("attention_dropout", 0, 0, 1);
  const bool jitter = model.number("moe_input_jitter_eps", 0, 0, 1) > 0;
  if (graphs.off()) return;
  if (granularity == "full" && !graphs.iteration())
    refuse(sections, scenario, model, graph_impl, "graphs-exclude-full-recompute",
           "must be full_iteration or none with full recompute");
  if (granularity != "selective") return;
  if (graphs.impl == "transformer_engine" && modules.moe && graphs.captures("moe_router"))
    refuse(sections, scenario, model, graph_scope, "graph-router-excludes-moe-recompute",
           "moe_router cannot be captured when recompute_modules holds moe");
  const bool all = graphs.iteration() || graphs.whole_layers();
  const auto no = [&](const std::string& key, const std::string& what) {
    refuse(sections, scenario, model, key, "graphed-recompute-excludes-randomness",
           "must be 0 when " + what + " is captured by a CUDA graph and run again");
  };
  if (attention_dropout > 0 && modules.core_attn && (all || graphs.captures("attn")))
    no("attention_dropout", "attention");
  const bool mlp = modules.mlp && (all || graphs.captures("mlp")),
             moe = modules.moe && (all || graphs.captures("moe"));
  if (scenario.model.hidden_dropout && (mlp || moe))
    no("hidden_dropout", mlp ? "the MLP" : "the MoE layer");
  if (jitter && moe) no("moe_input_jitter_eps", "the MoE layer");
}

/// Fine-grained offload beside graphs.
void check_graphed_offload(const ScenarioSections& sections, Scenario& scenario,
                           const Graphs& graphs) {
  const Reader& model = sections.model;
  const ModuleOffload& offload = scenario.module_offload;
  const int warm_up = model.integer("cuda_graph_warmup_steps", 3, any_count);
  const bool limited = model.has("fine_grained_offloading_max_inflight_offloads");
  if (graphs.off() || !model.boolean("fine_grained_activation_offloading", false)) return;
  if (graphs.impl == "local" && !graphs.iteration()) {
    if (offload.attn_norm || offload.qkv_linear || offload.core_attn || offload.attn_proj ||
        offload.mlp_norm)
      refuse(sections, scenario, model, "offload_modules", "local-graphs-limit-offload",
             "must hold only expert_fc1, moe_act or fused_group_mlp with cuda_graph_impl local");
    if (graphs.whole_layers())
      refuse(sections, scenario, model, graph_scope, "local-graphs-of-layers-exclude-offload",
             "must name parts of layers with cuda_graph_impl local and fine-grained offload");
  }
  if (graphs.captures("moe"))
    refuse(sections, scenario, model, graph_scope, "graph-moe-excludes-offload",
           "moe cannot be captured with fine-grained offload");
  if (warm_up < 1)
    refuse(sections, scenario, model, "cuda_graph_warmup_steps", "graphed-offload-needs-warm-up",
           "must be 1 or more with fine-grained offload; got 0");
  if (graphs.iteration() && !limited)
    refuse(sections, scenario, model, "fine_grained_offloading_max_inflight_offloads",
           "iteration-graph-needs-offload-limit",
           "is missing; fine-grained offload in a graph of the iteration needs a limit");
}

/// section.`key` of a part of the configuration that changes no step.
std::optional<bool> beside(const ScenarioSections& sections, const std::string& section,
                           const char* key) {
  const nlohmann::json* part = sections.top.find(section);
  if (part == nullptr || !part->is_object()) return {};
  const auto found = part->find(key);
  if (found == part->end() || !found->is_boolean()) return {};
  return found->get<bool>();
}

/// What Bridge asks for beside the graphs. It changes no step, so silence is an advice only.
void check_graph_surroundings(const ScenarioSections& sections, Scenario& scenario,
                              const Graphs& graphs) {
  const Reader& model = sections.model;
  const std::optional<bool> tracker = model.optional_bool("use_te_rng_tracker");
  if (graphs.off() || sections.dialect != Dialect::bridge) return;
  const std::optional<bool> other = beside(sections, "rng", "te_rng_tracker"),
                            nan = beside(sections, "rerun_state_machine", "check_for_nan_in_loss");
  const auto say = [&](bool written, const std::string& key, const std::string& id,
                       const std::string& reason) {
    if (written)
      refuse(sections, scenario, model, key, id, reason);
    else if (sections.collect)
      add_finding(scenario, model, key, id, Finding::Kind::advice, model.text_of(key), "", reason);
  };
  if (!tracker.value_or(false) && !other.value_or(false))
    say(tracker || other, "use_te_rng_tracker", "graphs-need-rng-tracker",
        "must be true with CUDA graphs (Bridge refuses them otherwise)");
  if (graphs.iteration() && nan.value_or(true))
    say(nan.has_value(), graph_impl, "iteration-graph-excludes-nan-check",
        "a graph of the iteration needs rerun_state_machine.check_for_nan_in_loss false");
  if (graphs.impl == "local" && !graphs.iteration())
    say(false, graph_impl, "local-graphs-hold-iterations",
        "'local' is accepted by current releases of Bridge only with cuda_graph_scope "
        "full_iteration; transformer_engine captures parts of layers");
}

}  // namespace

void check_graphs(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const Graphs graphs(model);
  check_graphed_recompute(sections, scenario, graphs);
  check_graphed_offload(sections, scenario, graphs);
  check_graph_surroundings(sections, scenario, graphs);
  if (graphs.off()) return;
  if (!graphs.iteration() && model.boolean("cpu_offloading", false))
    refuse(sections, scenario, model, graph_impl, "graphs-exclude-cpu-offload",
           "cannot be combined with cpu_offloading, unless it is full_iteration");
  if (graphs.iteration()) {
    const bool more =
        std::any_of(graphs.asked.begin(), graphs.asked.end(),
                    [](const std::string& s) { return s != "full_iteration" && s != "full"; });
    if (more)
      refuse(sections, scenario, model, graph_scope, "iteration-graph-excludes-parts",
             "must name no parts of layers beside a graph of the whole iteration");
    return;
  }
  check_graph_scope(sections, scenario, graphs);
  if (scenario.moe_runtime.overlap_ep && graphs.impl == "transformer_engine" &&
      (graphs.captures("moe") || graphs.captures("mlp")))
    refuse(sections, scenario, model, graph_scope, "ep-overlap-excludes-mlp-graphs",
           "moe and mlp cannot be captured with overlap_moe_expert_parallel_comm");
}

}  // namespace stepsim
