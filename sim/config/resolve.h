// The passes that turn merged sections into a resolved Scenario, in Megatron-Bridge's order
// (runtime_config_update): mixed precision first, then sizes, then communication overlap, then
// validation.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "sim/config/reader.h"
#include "sim/config/scenario.h"

namespace stepsim {

/// Whose defaults and checks hold: what one raises the other may only reset.
enum class Dialect { bridge, megatron_lm };

/// The sections of one merged scenario, open while it is resolved.
struct ScenarioSections {
  Reader top, cluster, model, ddp, comm_overlap, mixed_precision, dataset, train, optimizer,
      env_vars, software, pipeline, costs, dist, peft;
  bool recipe_is_text = false;  ///< mixed_precision was written as a name, not as an object
  bool collect = false;  ///< what Bridge would raise becomes a finding and resolution goes on
  Dialect dialect = Dialect::bridge;
  explicit ScenarioSections(const Document& document);
  /// Times in place of kernels; how tokens spread over experts gives none, nor do single kernels.
  bool given_costs() const {
    const std::vector<std::string> keys = costs.keys();
    return costs.present() && (keys.empty() || std::any_of(keys.begin(), keys.end(), [](auto& k) {
                                 return k != "moe_routing" && k != "kernels";
                               }));
  }
  /// Given costs alone: there may be faults of ranks, but no machine.
  bool no_machine() const {
    return given_costs() && !cluster.has("system") && !cluster.has("nodes") && !cluster.has("gpus");
  }
};

/// A number in a reason.
inline std::string text(int64_t value) { return std::to_string(value); }

/// Refuses what this release does not simulate, one clear line each; never approximates silently.
void refuse_unsimulated(const ScenarioSections& sections, Scenario& scenario);
/// "null, 0 or 1" when any other value of the key is refused by it; "" when the key is free.
std::string accepted_values(std::string_view section, std::string_view key);
void resolve_precision(const ScenarioSections& sections, Scenario& scenario);
/// TP, PP, CP, VP and what hangs on them. Needs cluster.gpus; sets dp and the batch.
void resolve_sizes(const ScenarioSections& sections, Scenario& scenario, bool given_costs);
/// Lengths of packed sequences. Needs the batch.
void resolve_packing(const ScenarioSections& sections, Scenario& scenario);
/// cluster.faults, slowdown and jitter. Needs the mesh; degrades a free-form graph's links.
void resolve_faults(const ScenarioSections& sections, Scenario& scenario);
void resolve_schedule(const ScenarioSections& sections, Scenario& scenario);
/// Model against mesh: heads, layers, sequence. Needs everything but overlap.
void check_model_fits_mesh(const ScenarioSections& sections, Scenario& scenario);
/// Reads the pipeline layout and lets it set VP. Needs PP.
void resolve_layout(const ScenarioSections& sections, Scenario& scenario);
/// EP, ETP and what hangs on them. Needs the model and the dense mesh.
void resolve_experts(const ScenarioSections& sections, Scenario& scenario);
/// Dispatcher, fusions, capacity: scenario.moe_runtime. Needs experts, EP, ETP and the precision.
void resolve_moe_runtime(const ScenarioSections& sections, Scenario& scenario);
/// cp_comm_type and what its kinds ask of heads and windows. Needs the model and the dense mesh.
void resolve_context(const ScenarioSections& sections, Scenario& scenario);
/// Checks of Megatron that concern nothing simulated here, and advice on the layout.
void validate(const ScenarioSections& sections, Scenario& scenario);
void advise(const ScenarioSections& sections, Scenario& scenario);
/// env_vars that decide how kernels share a device; values may be numbers or text. Needs overlap.
void resolve_launch_env(const ScenarioSections& sections, Scenario& scenario);
void resolve_recompute(const ScenarioSections& sections, Scenario& scenario);
/// CUDA graphs: which launches collapse; and, needing everything else, what they may not hold.
void resolve_graphs(const ScenarioSections& sections, Scenario& scenario);
void check_graphs(const ScenarioSections& sections, Scenario& scenario);
/// Bridge's CommOverlapConfig gates (sim/config/overlap.cpp).
void resolve_overlap(const ScenarioSections& sections, Scenario& scenario);
/// Whether parameters are gathered unit by unit, and what is sharded.
void resolve_fully_sharded(const ScenarioSections& sections, Scenario& scenario);
/// What Megatron-FSDP and FSDP2 ask for and change. Needs overlap and the launch environment.
void check_fully_sharded(const ScenarioSections& sections, Scenario& scenario);
/// LoRA: peft. Needs the model and the dense mesh.
void resolve_adapters(const ScenarioSections& sections, Scenario& scenario);
/// Bytes of optimizer state. Needs the precision and whether the optimizer is sharded.
void resolve_optimizer(const ScenarioSections& sections, Scenario& scenario);
void resolve_costs(const ScenarioSections& sections, Scenario& scenario);
/// Refuses, with the count and the limit, what no machine should be asked to hold.
void check_task_count(const ScenarioSections& sections, const Scenario& scenario);

/// What Megatron would raise about `section`.`key`: an Error, or a finding when `sections.collect`.
void refuse(const ScenarioSections& sections, Scenario& scenario, const Reader& section,
            const std::string& key, const std::string& id, const std::string& reason);

/// What this release does not simulate: an Error, or a finding when `sections.collect`.
void not_simulated(const ScenarioSections& sections, Scenario& scenario, const Reader& section,
                   const std::string& key, const std::string& message);
/// One switch of comm_overlap: the user's value there wins over Bridge's default, and the result
/// over what `target` says; without the section `target`'s own or Megatron-Core's default.
bool written_switch(Scenario& scenario, const ScenarioSections& sections, const Reader& target,
                    const std::string& key, bool bridge_default, bool core_default);

/// Adds a finding about `section`.`key`.
void add_finding(Scenario& scenario, const Reader& section, const std::string& key,
                 const std::string& id, Finding::Kind kind, const std::string& requested,
                 const std::string& effective, const std::string& reason);

}  // namespace stepsim
