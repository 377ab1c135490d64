// Measured training steps, read and predicted.
//
// A line of a .jsonl file: {"id", "group", "tier", "release", "newest", "suspect", "history",
// "measured": {"step_time_seconds"}, "scenario"}; other keys are notes. `scenario.model.hf_config`
// is looked up in models/ and in models/ beside the file, `cluster.system` in hardware/, in
// systems/ and in systems.json beside it. A .csv file has the columns name, scenario (a file,
// looked up beside it too) and step_seconds: one's own measurements, which all count.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/config/read.h"

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
  ByDoubt doubt_shares{};                    ///< what decides its width
  std::vector<std::string> assumed;          ///< dotted keys that nobody published
  std::string failure;

  bool inside() const {
    return low_seconds <= measured_seconds && measured_seconds <= high_seconds;
  }
  double error() const { return predicted_seconds / measured_seconds - 1; }
};

/// One row as it stands in its file. Absent scenario: `row.failure` says why.
struct StepRow {
  MeasuredStep row;
  std::optional<Scenario> scenario;
};
/// Every `every`-th row. `cluster`: the system to take in place of what rows say, or empty.
std::vector<StepRow> read_step_rows(const std::string& file, const DataPaths& data, int every = 1,
                                    const std::string& cluster = "");
/// Simulates those that have a scenario, on all cores; the same whatever their number.
void predict(std::span<StepRow> rows);

}  // namespace stepsim
