// Predicted against measured training steps: rows of a JSON-lines file.
//
// A row: {"id", "group", "tier", "release", "newest", "suspect", "history", "measured":
// {"step_time_seconds"}, "scenario"}; other keys are notes. `scenario.model.hf_config` is looked up
// in models/ and in models/ beside the file, `cluster.system` in hardware/, in systems/ and in
// systems.json beside it.
#pragma once

#include <string>
#include <vector>

#include "sim/config/read.h"
#include "sim/study/validate_collectives.h"

namespace stepsim {

/// One measurement and what the simulator makes of it.
struct MeasuredStep {
  std::string id, group, tier;
  /// Tier A, the newest of its source, not suspect, and no step of a published history of one
  /// software, of which only ratios mean something.
  bool scored = false;
  std::string scenario;  ///< id of the first row that ran the same: they share one vote
  double measured_seconds = 0;
  double predicted_seconds = 0;              ///< 0 when `failure` says why there is none
  double low_seconds = 0, high_seconds = 0;  ///< the prediction's interval
  std::vector<std::string> assumed;          ///< dotted keys that nobody published
  std::string failure;

  bool inside() const {
    return low_seconds <= measured_seconds && measured_seconds <= high_seconds;
  }
  double error() const { return predicted_seconds / measured_seconds - 1; }
};

/// The errors of one group of rows, or of all.
struct StepCell {
  std::string group;
  RelativeErrors all, scored;
  int failed = 0;
  double inside = 0;  ///< share of the scored whose measured time lies in its interval
};
struct StepValidation {
  std::vector<MeasuredStep> rows;
  std::vector<StepCell> groups;  ///< worst mean error first
  StepCell overall;
};
/// Every `every`-th row of the file.
StepValidation validate_steps(const std::string& file, const DataPaths& data, int every = 1);

std::string validation_text(const StepValidation& validation);
std::string validation_json(const StepValidation& validation);

}  // namespace stepsim
