// Published step times as rows: read, simulate, compare.
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

/// One measured configuration and what the simulator says of it.
struct PublishedRow {
  std::string id, group;
  bool scored = false;  ///< newest of its source and not suspect
  double measured_seconds = 0, predicted_seconds = 0;
  Report report;
  double error() const { return predicted_seconds / measured_seconds - 1; }
};

inline DataPaths published_data() {
  DataPaths data = find_data();
  data.more_models.push_back("tests/published/models");
  return data;
}

/// STEPSIM_QUICK=1: sanitizer runs.
inline bool quick() { return std::getenv("STEPSIM_QUICK") != nullptr; }

/// Every `stride`-th row (0: all).
inline std::vector<PublishedRow> simulate_rows(const std::string& file, int stride = 0) {
  std::vector<PublishedRow> rows;
  std::ifstream in(file);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    PublishedRow row{.id = json.at("id"),
                     .group = json.at("group"),
                     .scored = json.at("newest").get<bool>() && json.at("suspect").is_null(),
                     .measured_seconds = json.at("measured").at("step_time_seconds"),
                     .predicted_seconds = 0,
                     .report = {}};
    if (stride > 0 && number++ % stride != 0) continue;
    const Scenario scenario =
        read_scenario_text(json.at("scenario").dump(), row.id, {}, "", published_data());
    row.report = std::get<Simulation>(simulate(scenario)).report;
    row.predicted_seconds = row.report.step_seconds;
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Mean, 90th percentile (nearest rank) and largest of absolute errors, and the mean signed error.
struct ErrorStatistics {
  double mean_abs = 0, p90_abs = 0, max_abs = 0, bias = 0;
};

inline ErrorStatistics statistics(const std::vector<PublishedRow>& rows) {
  std::vector<double> absolute;
  ErrorStatistics s;
  for (const PublishedRow& r : rows) {
    absolute.push_back(std::abs(r.error()));
    s.mean_abs += std::abs(r.error()) / static_cast<double>(rows.size());
    s.bias += r.error() / static_cast<double>(rows.size());
  }
  std::sort(absolute.begin(), absolute.end());
  if (absolute.empty()) return s;
  s.max_abs = absolute.back();
  const auto rank = static_cast<size_t>(std::ceil(0.9 * static_cast<double>(absolute.size())));
  s.p90_abs = absolute[rank - 1];
  return s;
}

}  // namespace stepsim::test
