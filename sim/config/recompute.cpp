// What is executed again in backward (megatron/core/transformer/transformer_config.py,
// recompute.py, transformer_layer.py).
#include <algorithm>
#include <array>

#include "sim/config/model_read.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using Kind = Finding::Kind;

/// A module of recompute_modules. `simulated`: its second forward is in the graph.
struct ModuleRow {
  std::string_view name;
  bool RecomputeModules::*flag;
  bool simulated;
};
constexpr std::array<ModuleRow, 8> module_rows{{
    {"core_attn", &RecomputeModules::core_attn, true},
    {"layernorm", &RecomputeModules::layernorm, true},  // nothing to run (check_modules)
    {"mlp", &RecomputeModules::mlp, true},
    {"moe", &RecomputeModules::moe, true},
    {"moe_act", &RecomputeModules::moe_act, true},
    {"shared_experts", &RecomputeModules::shared_experts, true},
    {"mla_up_proj", &RecomputeModules::mla_up_proj, true},
    {"gdn_norm_out", &RecomputeModules::gdn_norm_out, true},
}};

/// Comma-separated: all, or those that are simulated.
std::string module_names(bool simulated) {
  std::string names;
  for (const ModuleRow& row : module_rows)
    if (row.simulated || !simulated) (names += names.empty() ? "" : ", ") += row.name;
  return names;
}

void check_modules(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const RecomputeModules& m = scenario.recompute_modules;
  const std::string key = "recompute_modules";
  const auto no = [&](const std::string& id, const std::string& reason) {
    refuse(sections, scenario, model, key, id, reason);
  };
  if (m.mla_up_proj && !scenario.model.mla.present())
    no("mla-recompute-needs-mla", "mla_up_proj needs multi_latent_attention");
  if (m.gdn_norm_out && !scenario.model.delta_net.present())
    no("gdn-recompute-needs-gdn", "gdn_norm_out needs gated delta networks");
  if (m.moe_act && !model.boolean("moe_grouped_gemm", scenario.model.moe.present()))
    no("moe-act-recompute-needs-grouped-gemm", "moe_act needs moe_grouped_gemm");
  if (m.shared_experts && model.boolean("moe_shared_expert_overlap", false))
    no("shared-recompute-excludes-overlap",
       "shared_experts cannot be combined with moe_shared_expert_overlap");
  if (scenario.precision.fp8 == Fp8Recipe::delayed && (m.moe_act || m.layernorm))
    no("delayed-scaling-excludes-output-discarding",
       "moe_act and layernorm cannot be combined with delayed fp8 scaling");
  const auto nothing = [&](const std::string& id, const std::string& what,
                           const std::string& reason) {
    add_finding(scenario, model, key, id, Kind::advice, what, what, reason);
  };
  if (m.core_attn && scenario.cluster.stack.fused_attention)
    nothing(
        "core-attention-recompute-saves-nothing", "core_attn",
        "fused attention keeps no scores, so recomputing it frees next to nothing and costs one "
        "attention forward a layer");
  if (m.layernorm && !scenario.model.moe.present() && !scenario.model.mla.present())
    nothing("layernorm-recompute-has-no-effect", "layernorm",
            "in a dense model the norms are fused into Transformer Engine's LayerNormLinear, so "
            "there is no separate module to recompute");
  if ((m.moe || m.moe_act || m.shared_experts) && !scenario.model.moe.present())
    nothing("moe-recompute-has-no-effect", "moe", "the model has no experts");
}

}  // namespace

void resolve_recompute(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  static const std::vector<std::string> granularities{"full", "selective"},
      methods{"uniform", "block"};
  const std::string granularity = model.choice("recompute_granularity", "", granularities);
  const std::string method = model.choice("recompute_method", "", methods);
  const auto layers = model.optional_int("recompute_num_layers", layers_range);
  scenario.effective["model.recompute_granularity"] =
      granularity.empty() ? "null" : json_text(granularity);
  if (!granularity.empty() && scenario.parallel.sequence_parallel &&
      model.boolean("distribute_saved_activations", false))
    refuse(sections, scenario, model, "distribute_saved_activations",
           "distributed-activations-exclude-sequence-parallel",
           "cannot be combined with sequence_parallel");
  if (granularity == "full") {
    if (method.empty())
      refuse(sections, scenario, model, "recompute_method", "full-recompute-needs-method",
             "is missing; full recompute needs uniform or block");
    if (!layers)
      refuse(sections, scenario, model, "recompute_num_layers", "full-recompute-needs-layers",
             "is missing; full recompute needs a number of layers");
    scenario.recompute = method == "block" ? Recompute::full_block : Recompute::full_uniform;
    scenario.recompute_layers = static_cast<int>(layers.value_or(1));
    return;
  }
  if (granularity != "selective") return;
  if (layers)
    refuse(sections, scenario, model, "recompute_num_layers", "selective-recompute-excludes-layers",
           "must be null with selective recompute; got " + std::to_string(*layers));
  std::vector<std::string> names{"core_attn"};  // Megatron-Core's default
  if (model.has("recompute_modules")) names = model.strings("recompute_modules");
  for (const std::string& name : names) {
    const auto* row = std::find_if(module_rows.begin(), module_rows.end(),
                                   [&](const ModuleRow& r) { return r.name == name; });
    if (row == module_rows.end()) {
      refuse(sections, scenario, model, "recompute_modules", "recompute-module-unknown",
             "unknown module '" + printable(name) + "'; valid: " + module_names(false));
      continue;
    }
    scenario.recompute_modules.*(row->flag) = true;
    if (!row->simulated)
      not_simulated(
          sections, scenario, model, "recompute_modules",
          "'" + name + "' is not simulated in this release; valid: " + module_names(true));
  }
  check_modules(sections, scenario);
}

}  // namespace stepsim
