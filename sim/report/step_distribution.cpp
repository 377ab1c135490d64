#include "sim/report/step_distribution.h"

#include <algorithm>
#include <cassert>

namespace stepsim {

StepDistribution distribution_of(std::vector<double> steps) {
  assert(!steps.empty());
  std::sort(steps.begin(), steps.end());
  const size_t n = steps.size();
  const auto percentile = [&](size_t p) { return steps[(p * n + 99) / 100 - 1]; };
  // From the smallest on, and of differences: equal samples have their own value as mean.
  double above = 0;
  for (const double s : steps) above += s - steps.front();
  return {.samples = static_cast<int>(n),
          .p50_seconds = percentile(50),
          .mean_seconds = steps.front() + above / static_cast<double>(n),
          .p90_seconds = percentile(90),
          .max_seconds = steps.back()};
}

}  // namespace stepsim
