// Every published step: it runs, or says what it lacks; errors by group.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "sim/base/error.h"
#include "sim/study/validate_steps.h"
#include "tests/published/predictions.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

struct StepFile {
  const char* name;
  int rows;    ///< so many
  int stride;  ///< simulated: every n-th; `stepsim validate --rows` runs them all
  int accept;  ///< at least so many of them are simulated: 0 where a feature has not landed
};
constexpr StepFile step_files[] = {
    {"dense", 125, 125, 125},      {"dense_cp_a2a", 7, 2, 7},
    {"low_precision", 45, 15, 45}, {"moe", 200, 40, 200},
    {"hybrid", 47, 12, 47},        {"fsdp", 131, 6, 131},
    {"schedules", 93, 9, 93},      {"small", 215, 40, 215},
    {"bloom_prequel", 65, 16, 65}, {"dense_partly_known", 118, 24, 118},
    {"finetuning", 11, 5, 11},
};

std::string path_of(const StepFile& file) {
  return "tests/published/" + std::string(file.name) + ".jsonl";
}

/// The sanitizers read one row in eight.
bool left_out(int row) { return quick() && row % 8 != 0; }

}  // namespace

TEST_CASE("published steps: how near a sample of them comes") {
  for (const StepFile& file : step_files) {
    const StepValidation v =
        validate_steps(path_of(file), published_data(), file.stride * (quick() ? 8 : 1));
    for (const MeasuredStep& row : v.rows) {
      CAPTURE(row.id);
      if (!row.failure.empty()) continue;
      CHECK(std::isfinite(row.predicted_seconds));
      CHECK(row.predicted_seconds > 0);
      // What is assumed is written into the shipped rows.
      CHECK(row.assumed.empty());
    }
    fmt::print("{}\n", file.name);
    for (const StepCell& cell : v.groups)
      fmt::print("  {}: {} rows, bias {:+.1f} %, mean {:.1f} %, worst {:.1f} %, refused {}\n",
                 cell.group, cell.all.count, cell.all.bias * 100, cell.all.mean_abs * 100,
                 cell.all.max_abs * 100, cell.failed);
  }
}

// Half to all of a file's sample, two in three to nineteen in twenty of all: four in five (README).
TEST_CASE("published steps: measured times lie in the 80 % interval about as often as it says") {
  if (quick()) return;
  int inside = 0, scored = 0;
  for (const char* name : {"dense", "moe", "low_precision"}) {
    const std::vector<PublishedStep>& rows = published_steps(name);
    const int before = inside, begun = scored;
    for (size_t i = 0; i < rows.size(); i += 5) {
      if (!rows[i].scored) continue;
      const Prediction& p = predicted(rows[i]);
      ++scored;
      inside +=
          p.low_seconds <= rows[i].measured_seconds && rows[i].measured_seconds <= p.high_seconds;
      CHECK(p.low_seconds < p.seconds);
      CHECK(p.high_seconds > p.seconds);
    }
    CAPTURE(name);
    CHECK(2 * (inside - before) >= scored - begun);
  }
  fmt::print("{} of {} inside\n", inside, scored);
  CHECK(inside >= scored * 2 / 3);
  CHECK(inside <= scored * 19 / 20);
}

TEST_CASE("published steps: all are read, and what is refused says why") {
  std::map<std::string, int> reasons;
  int accepted = 0, all = 0;
  for (const StepFile& file : step_files) {
    std::ifstream in(path_of(file));
    int rows = 0, here = 0;
    for (std::string line; std::getline(in, line); ++rows) {
      if (left_out(rows)) continue;
      const auto json = nlohmann::json::parse(line);
      try {
        read_scenario_text(json.at("scenario").dump(), "row", {}, "", published_data());
        ++here;
      } catch (const Error& error) {
        ++reasons[error.what()];
      }
    }
    fmt::print("{}: {} of {} rows are simulated\n", file.name, here, rows);
    CAPTURE(file.name);
    CHECK(rows == file.rows);
    CHECK((quick() || here >= file.accept));
    accepted += here;
    all += rows;
  }
  for (const auto& [reason, count] : reasons) fmt::print("{:4} x {}\n", count, reason);
  fmt::print("{} of {} rows are simulated\n", accepted, all);
  CHECK(all >= 1043);
  CHECK((quick() || accepted >= 0.95 * all));
}

// What somebody ran, Bridge accepts.
TEST_CASE("published steps break no rule of Megatron-Bridge") {
  for (const StepFile& file : step_files) {
    std::ifstream in(path_of(file));
    int rows = 0;
    for (std::string line; std::getline(in, line);) {
      if (left_out(rows++)) continue;
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
