// One scenario out of many: read, simulated, and boiled down to the figures that tables compare.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/config/read.h"

namespace stepsim {

/// What many scenarios have in common.
struct Experiment {
  std::string file;  ///< the base
  std::vector<std::string> words;
  std::string cluster;  ///< NAME[:NODES] or empty
  DataPaths data;
};

/// Figures of one report that tables compare.
struct Figures {
  double step_seconds = 0, low_seconds = 0, high_seconds = 0;
  std::optional<double> tokens_per_second_per_gpu, mfu;
  std::optional<double> needed_bytes, capacity_bytes;  ///< with what the framework reserves
  bool fits = true;
  int gpus = 0;
  int memory_rank = 0;
  double bubble_fraction = 0;
  std::optional<double> overlap_efficiency;
  std::vector<std::pair<std::string, double>> ledger;  ///< seconds by cause
  std::string cause;  ///< of the ledger, the largest beside compute; "" when there is none
  double cause_share = 0;

  double tokens_per_second() const { return tokens_per_second_per_gpu.value_or(0) * gpus; }
};

/// The report, or why there is none.
struct Outcome {
  std::string report;  ///< JSON text (stepsim.report/1); empty when it failed
  std::string failure_pointer, failure;
  bool failed() const { return !failure.empty(); }
};

/// `words` after the experiment's own.
Scenario read_experiment(const Experiment& experiment, std::span<const std::string> words,
                         const std::string& cluster);
/// Never throws an Error: it becomes the failure. So does a step that cannot finish.
Outcome simulated(const Experiment& experiment, std::span<const std::string> words,
                  const std::string& cluster);
/// The same of a scenario as JSON text; `file` is what errors point at.
Outcome simulated_text(const std::string& text, const std::string& file, const DataPaths& data);
Figures figures_of(const std::string& report);

}  // namespace stepsim
