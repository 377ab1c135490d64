// One step, from a resolved scenario to its report.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/engine/digest.h"
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

/// Steps that are known by their lowered graph: settings that differ in nothing that reaches the
/// graph are run once. May be used from many threads.
class StepMemo {
 public:
  /// Nothing: not known. Nothing inside: it cannot finish.
  std::optional<std::optional<double>> find(const Digest& key) const;
  void add(const Digest& key, std::optional<double> seconds);
  size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<Digest, std::optional<double>> known_;
};

/// How long the step takes, as in `Report::step_seconds`, and nothing else of it; absent where it
/// cannot finish. Throws as `simulate` does.
std::optional<double> step_seconds(const Scenario& scenario, StepMemo& memo);

}  // namespace stepsim
