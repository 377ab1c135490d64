// Many steps at once, on all cores. Results are by place, so they are the same on any number of
// them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/report/ledger.h"
#include "sim/simulate.h"
#include "sim/study/workers.h"

namespace stepsim {

/// One step of a study; failed where `failure` is not empty.
struct StepOutcome {
  double seconds = 0;
  Ledger ledger;
  std::string failure{};
  bool ok() const { return failure.empty(); }
};
/// A step to simulate; made where it is simulated, so that few scenarios exist at a time.
struct Case {
  std::function<Scenario()> scenario;
  SimulateOptions options{};
};
/// A scenario that is refused, and a step that cannot finish, are outcomes.
StepOutcome outcome_of(const Case& one);
std::vector<StepOutcome> outcomes(std::span<const Case> cases, const Progress& progress = {});

}  // namespace stepsim
