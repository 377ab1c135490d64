// A plan as people and as programs read it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/study/goodput.h"
#include "sim/study/plan.h"

namespace stepsim {

/// What a whole run is asked about.
struct RunQuestion {
  std::optional<double> tokens, price_per_gpu_hour, budget, most_days;
  FailureRates failures;
  Checkpoints checkpoints;
  std::optional<double> watts_per_gpu;
  int gpus_per_host = 8;
};
/// The run on a plan's winner; nothing without tokens or a winner.
struct PlannedRun {
  Goodput goodput;
  RunCost cost;
  bool in_budget = true, in_time = true;
};
std::optional<PlannedRun> planned_run(const LayoutPlan& plan, const RunQuestion& question);

/// Table, frontier, why the first beats the second, the guide's start, the run.
std::string plan_text(const LayoutPlan& plan, const RunQuestion& question);
/// One line a plan: several numbers of GPUs, compared.
std::string plans_text(const std::vector<LayoutPlan>& plans, const RunQuestion& question);
std::string plans_json(const std::vector<LayoutPlan>& plans, const RunQuestion& question);
/// Bridge's dotted overrides of a scenario, one a line.
std::string as_overrides(const std::string& scenario);
/// What the plan chooses beside what the guide says, one line a plan.
std::string guide_text(const std::vector<std::pair<std::string, LayoutPlan>>& plans);

}  // namespace stepsim
