// Every published step: it runs, or says what it lacks; errors by group.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "sim/base/error.h"
#include "sim/study/validate_steps.h"
#include "tests/published/rows.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

struct StepFile {
  const char* name;
  int rows;    ///< at least so many
  int sample;  ///< under STEPSIM_QUICK only every n-th
};
constexpr StepFile step_files[] = {
    {"dense", 125, 25},        {"dense_cp_a2a", 7, 4},
    {"low_precision", 45, 15}, {"moe", 197, 40},
    {"hybrid", 47, 20},        {"fsdp", 131, 40},
    {"schedules", 93, 40},     {"small", 215, 80},
    {"bloom_prequel", 65, 30}, {"dense_partly_known", 118, 40},
};

std::string path_of(const StepFile& file) {
  return "tests/published/" + std::string(file.name) + ".jsonl";
}

}  // namespace

TEST_CASE("published steps: what runs, and how near it comes") {
  std::map<std::string, int> reasons;
  int run = 0, all = 0;
  for (const StepFile& file : step_files) {
    const StepValidation v =
        validate_steps(path_of(file), published_data(), quick() ? file.sample : 1);
    CAPTURE(file.name);
    if (!quick()) CHECK(static_cast<int>(v.rows.size()) >= file.rows);
    for (const MeasuredStep& row : v.rows) {
      CAPTURE(row.id);
      ++all;
      if (!row.failure.empty()) {
        ++reasons[row.failure];
        fmt::print("  {}: {}\n", row.id, row.failure);
        continue;
      }
      ++run;
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
  for (const auto& [reason, count] : reasons) fmt::print("{:4} x {}\n", count, reason);
  fmt::print("{} of {} rows run\n", run, all);
}

// What somebody ran, Bridge accepts.
TEST_CASE("published steps break no rule of Megatron-Bridge") {
  for (const StepFile& file : step_files) {
    std::ifstream in(path_of(file));
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
