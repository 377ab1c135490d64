// Predicted against measured training steps (sim/study/step_rows.h).
#pragma once

#include <string>
#include <vector>

#include "sim/config/read.h"
#include "sim/study/step_rows.h"
#include "sim/study/validate_collectives.h"

namespace stepsim {

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
/// Every `every`-th row of the file. `cluster`: the system in place of what rows say, or empty.
StepValidation validate_steps(const std::string& file, const DataPaths& data, int every = 1,
                              const std::string& cluster = "");

std::string validation_text(const StepValidation& validation);
std::string validation_json(const StepValidation& validation);

}  // namespace stepsim
