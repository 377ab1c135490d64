// How step times are distributed over samples of what a scenario leaves to chance.
#pragma once

#include <vector>

namespace stepsim {

/// Seconds. Percentiles are nearest-rank: the p-th of n sorted samples is number ceil(p n / 100).
struct StepDistribution {
  int samples = 0;
  double p50_seconds = 0, mean_seconds = 0, p90_seconds = 0, max_seconds = 0;
};

/// Of at least one sample.
StepDistribution distribution_of(std::vector<double> step_seconds);

}  // namespace stepsim
