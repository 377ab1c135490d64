// Plans as one page for a browser, which loads nothing: the frontier of time, memory and GPUs, the
// ranking and what decides it, what was searched, and what a run costs.
#pragma once

#include <string>
#include <vector>

#include "sim/study/plan_report.h"

namespace stepsim {

/// `name`: what is planned for, the model or the scenario's file. `winner`: which of the plans
/// answers the question; null where none does.
std::string plan_html(const std::vector<LayoutPlan>& plans, const RunQuestion& question,
                      const std::string& name, const LayoutPlan* winner);

}  // namespace stepsim
