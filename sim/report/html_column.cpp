#include <nlohmann/json.hpp>

#include "sim/report/html_parts.h"

namespace stepsim {
namespace {

constexpr size_t most_lag = 2;

std::vector<int64_t> runs_of(const std::vector<int64_t>& values, size_t lag) {
  std::vector<int64_t> runs;
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t value = values[i] - (lag > 0 && i >= lag ? values[i - lag] : 0);
    if (!runs.empty() && runs.back() == value)
      ++runs[runs.size() - 2];
    else
      runs.insert(runs.end(), {1, value});
  }
  return runs;
}

}  // namespace

Json column_json(const std::vector<int64_t>& values) {
  size_t best_lag = 0;
  std::vector<int64_t> best = runs_of(values, 0);
  for (size_t lag = 1; lag <= most_lag; ++lag)
    if (std::vector<int64_t> runs = runs_of(values, lag); runs.size() < best.size()) {
      best = std::move(runs);
      best_lag = lag;
    }
  if (best.size() >= values.size()) return values;
  return {{"lag", best_lag}, {"runs", best}};
}

}  // namespace stepsim
