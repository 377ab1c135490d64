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

namespace stepsim {

/// One step of a study; failed where `failure` is not empty.
struct Outcome {
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
/// Told after each case how many are done.
using Progress = std::function<void(size_t done, size_t all)>;

/// A scenario that is refused, and a step that cannot finish, are outcomes.
Outcome outcome_of(const Case& one);
std::vector<Outcome> outcomes(std::span<const Case> cases, const Progress& progress = {});

/// Runs `work(i)` for all i < count on all cores; no call may throw.
void on_all_cores(size_t count, const std::function<void(size_t)>& work);

}  // namespace stepsim
