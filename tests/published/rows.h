// What tests of published measurements share: where the data lie, and error statistics.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "sim/config/read.h"
#include "sim/simulate.h"

namespace stepsim::test {

inline DataPaths published_data() {
  DataPaths data = find_data();
  data.more_models.push_back("tests/published/models");
  return data;
}

/// STEPSIM_QUICK=1: sanitizer runs.
inline bool quick() { return std::getenv("STEPSIM_QUICK") != nullptr; }

/// Mean, 90th percentile (nearest rank) and largest of absolute errors, and the mean signed error.
struct ErrorStatistics {
  double mean_abs = 0, p90_abs = 0, max_abs = 0, bias = 0;
};

inline ErrorStatistics statistics(const std::vector<double>& errors) {
  std::vector<double> absolute;
  ErrorStatistics s;
  for (double error : errors) {
    absolute.push_back(std::abs(error));
    s.mean_abs += std::abs(error) / static_cast<double>(errors.size());
    s.bias += error / static_cast<double>(errors.size());
  }
  std::sort(absolute.begin(), absolute.end());
  if (absolute.empty()) return s;
  s.max_abs = absolute.back();
  const auto rank = static_cast<size_t>(std::ceil(0.9 * static_cast<double>(absolute.size())));
  s.p90_abs = absolute[rank - 1];
  return s;
}

}  // namespace stepsim::test
