// What a step leaves open, by kind (sim/config/doubts.h), fitted to the errors of predicted steps:
// quantile regression (Koenker and Bassett 1978) of the logarithm of absolute errors at 0.8, so
// that 80 % of measured times lie inside, whatever decides the step. Each file of steps has the
// same weight, so that none is covered at the cost of another. Each kind is held by its prior, the
// typical error of its kernels or collectives (median over cells of the median absolute error): a
// factor of 2 from it costs as much as five steps that lie inside by a factor of 2. Where no
// component was measured the prior is stated below.
#pragma once

#include <string>
#include <vector>

#include "sim/study/calibrate_steps.h"

namespace stepsim {

struct FittedDoubt {
  std::string key, name;
  double prior = 0, before = 0, after = 0;
  double share = 0;  ///< mean over the steps
};
/// How often measured times lie inside, by file.
struct Coverage {
  std::string file;
  int steps = 0;
  double before = 0, after = 0;
  double half_width = 0;  ///< median of the interval's, over the prediction
};
struct IntervalCalibration {
  std::vector<FittedDoubt> doubts;
  std::vector<Coverage> files;  ///< and all of them, last
  std::string file_text;        ///< of hardware/measurements/doubts.json
};
/// Measured kernels and collectives for the priors. `steps`: predicted samples.
ByDoubt doubt_priors(const std::string& kernels, const std::vector<std::string>& collectives,
                     const DataPaths& data);
/// From the shares and errors of predicted rows alone. `weights`: of the rows, 1 where none is
/// given.
ByDoubt fit_doubts(const std::vector<MeasuredStep>& rows, const ByDoubt& priors,
                   std::vector<double> weights = {});
IntervalCalibration calibrate_intervals(const std::vector<std::string>& steps,
                                        const std::string& kernels,
                                        const std::vector<std::string>& collectives,
                                        const DataPaths& data);
std::string calibration_text(const IntervalCalibration& calibration);

}  // namespace stepsim
