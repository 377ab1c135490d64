// Parameters that only whole steps can tell (sim/study/step_parameters.h), fitted to measured ones:
// robust least squares on log(predicted / measured), one vote a scenario, scored rows only. Slopes
// are taken once, at the start, by simulating again with each parameter 3 % up: a step is
// nearly linear in them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/study/step_parameters.h"
#include "sim/study/step_rows.h"
#include "sim/study/validate_collectives.h"

namespace stepsim {

struct FittedStepParameter {
  StepParameter parameter;
  double after = 0, standard_error = 0;
  int steps = 0;  ///< that feel it: a percent of it is a hundredth of a percent of the step
};
/// Errors of one group of steps; `without`: as predicted with what the others of its kind give.
struct StepGroup {
  std::string name;
  RelativeErrors errors, without;
};
struct StepCalibration {
  std::vector<std::string> files;
  int steps = 0;
  std::vector<FittedStepParameter> parameters;
  std::vector<std::string> untold;  ///< parameters that the steps do not tell
  std::vector<StepGroup> groups;    ///< left out one by one; from slopes, not simulated again
  std::vector<StepGroup> families;  ///< families of models, left out one by one, simulated again
  std::vector<StepGroup> tables;    ///< by file: families left out
};
/// A row and the file it is from.
struct StepSample {
  StepRow row;
  std::string file;
};
/// The scored rows of `files`. `every`: a sample of them.
std::vector<StepSample> read_samples(const std::vector<std::string>& files, const DataPaths& data,
                                     int every = 1, const std::string& cluster = "");
StepCalibration calibrate_steps(std::vector<StepSample> samples,
                                std::vector<StepParameter> parameters);
std::string calibration_text(const StepCalibration& calibration);

/// Hardware files below hardware/ that hold a fitted parameter, with its value and source.
std::map<std::string, std::string> fitted_files(const StepCalibration& calibration,
                                                const DataPaths& data);
/// "sustained, h100, h200".
std::string label(const StepParameter& parameter);
/// What a model's name says before its first number: "llama", "gpt-oss".
std::string family_of(const std::string& model);

}  // namespace stepsim
