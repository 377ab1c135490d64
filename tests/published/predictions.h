// Published steps and what the simulator says of them, for tests that compare more than one row:
// each row is simulated once in a program, whichever test asks first.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/published/rows.h"

namespace stepsim::test {

/// One line of a step file.
struct PublishedStep {
  std::string id, group;
  std::string kin;       ///< model and system: rows that compare
  std::string scenario;  ///< as JSON text
  bool scored = false;   ///< tier A, newest of its source, not suspect, no step of a history
  double measured_seconds = 0;
  double tokens = 0;
};

/// The rows of tests/published/`name`.jsonl.
inline const std::vector<PublishedStep>& published_steps(const std::string& name) {
  static std::map<std::string, std::vector<PublishedStep>> files;
  const auto [found, added] = files.try_emplace(name);
  if (!added) return found->second;
  std::ifstream in("tests/published/" + name + ".jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    const auto& scenario = row.at("scenario");
    const std::string system = scenario.at("cluster").at("system");
    const double tokens = scenario.at("train").at("global_batch_size").get<double>() *
                          scenario.at("dataset").at("seq_length").get<double>();
    found->second.push_back({.id = row.at("id"),
                             .group = row.at("group"),
                             .kin = scenario.at("model").value("hf_config", "") + " " + system,
                             .scenario = scenario.dump(),
                             .scored = row.at("tier") == "A" && row.at("newest").get<bool>() &&
                                       row.at("suspect").is_null() && !row.contains("history"),
                             .measured_seconds = row.at("measured").at("step_time_seconds"),
                             .tokens = tokens});
  }
  return found->second;
}

/// The step of a row in one of the files that hold ratios.
inline const PublishedStep& published_step(const std::string& id) {
  for (const char* name : {"dense", "moe", "schedules", "fsdp"})
    for (const PublishedStep& row : published_steps(name))
      if (row.id == id) return row;
  throw std::out_of_range(id);
}

/// Step time and its interval.
struct Prediction {
  double seconds = 0, low_seconds = 0, high_seconds = 0;
  int gpus = 0;
};

inline const Prediction& predicted(const PublishedStep& row) {
  static std::map<std::string, Prediction> known;  // by scenario
  const auto [found, added] = known.try_emplace(row.scenario);
  if (!added) return found->second;
  const Scenario scenario = read_scenario_text(row.scenario, row.id, {}, "", published_data());
  const Report report = std::get<Simulation>(simulate(scenario)).report;
  found->second = {report.step_seconds, report.step_seconds, report.step_seconds,
                   scenario.cluster.gpus};
  if (report.interval) {
    found->second.low_seconds = report.interval->low_seconds;
    found->second.high_seconds = report.interval->high_seconds;
  }
  return found->second;
}

inline double error(const PublishedStep& row) {
  return predicted(row).seconds / row.measured_seconds - 1;
}

}  // namespace stepsim::test
