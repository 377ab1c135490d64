// One's own cluster: what its NVLink and NICs really reach and how late they answer, fitted to
// measured collectives; then the sustained clock of its GPU and the host's time per operator, to
// measured steps. The result is one hardware file that --cluster takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/study/calibrate_steps.h"
#include "sim/study/hardware_file.h"
#include "sim/study/nccl_log.h"

namespace stepsim {

/// A parameter of a system's links, in the unit of its file.
struct LinkParameter {
  std::string pointer, unit;
  double before = 0, after = 0, standard_error = 0;
};
/// Collectives of one operation on one number of GPUs.
struct CollectiveGroup {
  std::string name;
  RelativeErrors before, after;
};
struct LinkCalibration {
  int rows = 0;
  std::vector<LinkParameter> parameters;
  std::vector<std::string> untold;  ///< pointers that the rows feel, and do not tell
  std::vector<CollectiveGroup> groups;
  double median_before = 0, median_after = 0;
  Cluster cluster;  ///< with what was fitted
};
LinkCalibration calibrate_links(const Cluster& cluster,
                                const std::vector<CollectiveSample>& samples);
std::string calibration_text(const LinkCalibration& calibration);

/// What was measured on one system: files of collectives and of steps, either of which may be none.
struct SystemCalibration {
  std::string system;
  std::optional<LinkCalibration> links;
  std::optional<StepCalibration> steps;
  std::string file_text;
};
SystemCalibration calibrate_system(const std::string& system,
                                   const std::vector<std::string>& collectives,
                                   const std::vector<std::string>& steps, const DataPaths& data);

}  // namespace stepsim
