// One step, from a resolved scenario to its report.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/engine/timeline.h"
#include "sim/lower/lowered.h"
#include "sim/report/report.h"

namespace stepsim {

struct SimulateOptions {
  bool unfold = false;  ///< simulate every rank instead of one per class
  bool sharing = true;  ///< flows on the same link share it
};

/// A simulated step with everything a trace needs.
struct Simulation {
  LoweredStep lowered;
  Timeline timeline;
  Report report;
  double lower_seconds = 0, engine_seconds = 0;  ///< wall time, for --timing
};

/// A step that cannot finish: who waits for whom, in order; the last waits for the first.
struct Stall {
  std::vector<std::string> waits;
  double reached_seconds = 0;  ///< when the last thing that could happen has happened
};

/// Throws Error where the network does not connect the ranks, where too many of them lie
/// differently to be simulated, and where the step has no finite time.
std::variant<Simulation, Stall> simulate(const Scenario& scenario,
                                         const SimulateOptions& options = {});

}  // namespace stepsim
