// Every published step: it runs, or says what it lacks; errors by group.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>

#include "sim/base/error.h"
#include "tests/published/rows.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

struct StepFile {
  const char* name;
  int every;  ///< under STEPSIM_QUICK only every n-th row
};
constexpr StepFile step_files[] = {
    {"moe", 20},
    {"hybrid", 10},
    {"low_precision", 10},
    {"fsdp", 20},
    {"dense_partly_known", 20},
    {"small", 40},
    {"schedules", 20},
    {"bloom_prequel", 20},
    {"dense_cp_a2a", 4},
};

/// One row that did not become a prediction.
struct Refusal {
  std::string id, reason;
};

/// Errors of one group of rows, and what of it did not run.
struct StepGroup {
  std::vector<PublishedRow> rows;
  std::vector<Refusal> refused;
};

/// The step time, or why there is none.
std::variant<double, std::string> predict(const nlohmann::json& row) {
  try {
    const Scenario scenario =
        read_scenario_text(row.at("scenario").dump(), "row", {}, "", published_data());
    const auto outcome = simulate(scenario);
    if (const auto* done = std::get_if<Simulation>(&outcome)) return done->report.step_seconds;
    return "the graph cannot finish: " + std::get<Stall>(outcome).waits.front();
  } catch (const Error& error) {
    return std::string(error.what());
  }
}

}  // namespace

TEST_CASE("published steps: what runs, and how near it comes") {
  std::map<std::string, StepGroup> groups;
  std::map<std::string, int> reasons;
  int run = 0, all = 0;
  for (const StepFile& file : step_files) {
    std::ifstream in("tests/published/" + std::string(file.name) + ".jsonl");
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      if (quick() && number++ % file.every != 0) continue;
      const auto json = nlohmann::json::parse(line);
      StepGroup& group =
          groups[std::string(file.name) + ": " + json.at("group").get<std::string>()];
      const auto predicted = predict(json);
      ++all;
      if (const auto* reason = std::get_if<std::string>(&predicted)) {
        group.refused.push_back({json.at("id"), *reason});
        ++reasons[*reason];
        continue;
      }
      ++run;
      PublishedRow row;
      row.id = json.at("id");
      row.scored = json.at("newest").get<bool>() && json.at("suspect").is_null();
      row.measured_seconds = json.at("measured").at("step_time_seconds");
      row.predicted_seconds = std::get<double>(predicted);
      CAPTURE(row.id);
      CHECK(std::isfinite(row.predicted_seconds));
      CHECK(row.predicted_seconds > 0);
      group.rows.push_back(std::move(row));
    }
  }
  for (const auto& [name, group] : groups) {
    const ErrorStatistics s = statistics(group.rows);
    fmt::print("{}: {} rows, bias {:+.1f} %, mean {:.1f} %, largest {:.1f} %, refused {}\n", name,
               group.rows.size(), s.bias * 100, s.mean_abs * 100, s.max_abs * 100,
               group.refused.size());
    for (const Refusal& refusal : group.refused)
      fmt::print("  {}: {}\n", refusal.id, refusal.reason);
  }
  for (const auto& [reason, count] : reasons) fmt::print("{:4} x {}\n", count, reason);
  fmt::print("{} of {} rows run\n", run, all);
}

// What somebody ran, Bridge accepts.
TEST_CASE("published steps break no rule of Megatron-Bridge") {
  for (const StepFile& file : step_files) {
    std::ifstream in("tests/published/" + std::string(file.name) + ".jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto json = nlohmann::json::parse(line);
      const std::string id = json.at("id");
      try {
        const Scenario scenario = read_scenario_text(json.at("scenario").dump(), id, {}, "",
                                                     published_data(), Strictness::collect);
        for (const Finding& f : scenario.findings)
          CHECK_MESSAGE(f.kind != Finding::Kind::error, id, " ", f.id, " ", f.key, ": ", f.reason);
      } catch (const Error& error) {
        FAIL_CHECK(error.what());
      }
    }
  }
}
