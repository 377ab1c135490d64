// The pipeline drawing: what the page of `run --html` draws on each stage is the schedule's
// program.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/parallel/schedule.h"
#include "sim/report/html.h"
#include "tests/laws/layout.h"
#include "tests/support/page_column.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

using Order = std::vector<std::string>;

/// F, B, I (input half) or W (weight half), microbatch, chunk: "F3.0".
std::string action(char kind, int microbatch, int chunk) {
  return kind + std::to_string(microbatch) + '.' + std::to_string(chunk);
}

Order programmed(const Program& program) {
  constexpr std::string_view letters = "FBIW";
  Order order;
  for (const Action& a : program)
    if (computes(a.kind))
      order.push_back(action(letters[static_cast<size_t>(a.kind)], a.microbatch, a.chunk));
  return order;
}

Order drawn(const nlohmann::json& device) {
  const auto column = [&](const char* name) { return page_column(device["blocks"][name]); };
  const std::vector<int64_t> kind = column("kind"), microbatch = column("microbatch"),
                             chunk = column("chunk");
  Order order;
  for (size_t i = 0; i < kind.size(); ++i)
    if (microbatch[i] >= 0)
      order.push_back(action("FBIWO"[static_cast<size_t>(kind[i])], static_cast<int>(microbatch[i]),
                             static_cast<int>(chunk[i])));
  return order;
}

void check_drawn(const nlohmann::json& json) {
  const Scenario scenario = read(json);
  const Simulation run = step_of(scenario);
  const nlohmann::json page =
      nlohmann::json::parse(page_data(scenario, run.lowered, run.timeline, run.report));
  const std::vector<Program> programs =
      schedule_row(scenario.schedule).programs(schedule_shape(scenario));
  REQUIRE(page["timeline"]["devices"].size() == programs.size());
  for (const nlohmann::json& device : page["timeline"]["devices"])
    CHECK(drawn(device) == programmed(programs[device["stage"].get<size_t>()]));
}

}  // namespace

TEST_CASE("law: with given times every schedule is drawn in its own order") {
  for (const ScheduleRow& row : schedule_rows()) {
    if (row.kind == ScheduleKind::order) continue;
    CAPTURE(row.name);
    nlohmann::json s;
    s["model"]["pipeline_model_parallel_size"] = 4;
    if (row.kind == ScheduleKind::interleaved)
      s["model"]["virtual_pipeline_model_parallel_size"] = 2;
    s["pipeline"]["schedule"] = row.name;
    s["train"] = {{"global_batch_size", 8}, {"micro_batch_size", 1}};
    s["costs"] = {{"forward_seconds", 1},
                  {"backward_input_seconds", 1.25},
                  {"backward_weight_seconds", 0.75}};
    check_drawn(s);
  }
}

TEST_CASE("law: kernels joined to blocks give the schedule's order too") {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb_h1"}) {
    CAPTURE(schedule);
    Layout layout{.pp = 2, .microbatches = 3};
    if (std::string(schedule) == "interleaved") {
      layout.vp = 2;
      layout.microbatches = 4;
    }
    nlohmann::json s = scenario_json("llama3.2-1b", "dgx-h100", layout);
    s["pipeline"]["schedule"] = schedule;
    check_drawn(s);
  }
}
