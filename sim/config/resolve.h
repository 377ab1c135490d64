// The passes that turn merged sections into a resolved Scenario, in Megatron-Bridge's order
// (runtime_config_update): mixed precision first, then sizes, then communication overlap, then
// validation.
#pragma once

#include <string>
#include <string_view>

#include "sim/config/reader.h"
#include "sim/config/scenario.h"

namespace stepsim {

/// The sections of one merged scenario, open while it is resolved.
struct ScenarioSections {
  Reader top, cluster, model, ddp, comm_overlap, mixed_precision, dataset, train, optimizer,
      env_vars, software, pipeline, costs;
  bool recipe_is_text = false;  ///< mixed_precision was written as a name, not as an object
  explicit ScenarioSections(const Document& document);
};

/// Refuses what this release does not simulate, one clear line each; never approximates silently.
void refuse_unsimulated(const ScenarioSections& sections);
/// "null, 0 or 1" when any other value of the key is refused by it; "" when the key is free.
std::string accepted_values(std::string_view section, std::string_view key);
void resolve_precision(const ScenarioSections& sections, Scenario& scenario);
/// TP, PP, CP, VP and what hangs on them. Needs cluster.gpus; sets dp and the batch.
void resolve_sizes(const ScenarioSections& sections, Scenario& scenario, bool given_costs);
void resolve_schedule(const ScenarioSections& sections, Scenario& scenario);
/// Model against mesh: heads, layers, sequence. Needs everything but overlap.
void check_model_fits_mesh(const ScenarioSections& sections, const Scenario& scenario);
void resolve_recompute(const ScenarioSections& sections, Scenario& scenario);
/// Bridge's CommOverlapConfig gates (sim/config/overlap.cpp).
void resolve_overlap(const ScenarioSections& sections, Scenario& scenario);
void resolve_costs(const ScenarioSections& sections, Scenario& scenario);
/// Refuses, with the count and the limit, what no machine should be asked to hold.
void check_task_count(const ScenarioSections& sections, const Scenario& scenario);

/// Adds a finding about `section`.`key`.
void add_finding(Scenario& scenario, const Reader& section, const std::string& key,
                 const std::string& id, Finding::Kind kind, const std::string& requested,
                 const std::string& effective, const std::string& reason);

}  // namespace stepsim
