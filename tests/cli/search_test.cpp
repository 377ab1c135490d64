// Commands that simulate many scenarios: contracts of their JSON, exit codes, width of their
// tables.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/page_block.h"

using namespace stepsim::test;
using nlohmann::json;

namespace {

const std::string small_plan =
    "plan llama3.2-1b --cluster dgx-h100 --gpus 2 --seq 1024 --gbs 4 model.num_layers=2 "
    "train.micro_batch_size=1 model.recompute_granularity=null ";

}  // namespace

TEST_CASE("sweep: rows with a report or a failure; the best is the shortest step") {
  const std::string words =
      "sweep scenarios/1f1b-4x8.json --vary train.global_batch_size=4,8,x "
      "--vary pipeline.schedule=1f1b,gpipe ";
  const json out = json::parse(output(words + "--json -"));
  CHECK(out["schema"] == "stepsim.sweep/1");
  REQUIRE(out["rows"].size() == 6);
  for (const json& row : out["rows"]) CHECK(row["report"].is_null() == row["failure"].is_string());
  const std::string table = output(words);
  CHECK(table.find("cannot be run") != std::string::npos);
  check_fits_100_columns(table);
  CHECK(
      output(words + "--csv -").starts_with("train.global_batch_size,pipeline.schedule,step_time"));
  CHECK(output(words + "--svg -").starts_with("<svg"));
  const json page = page_block(output(words + "--html -"));
  CHECK(page.at("best") == out.at("best"));
  for (size_t i = 0; i < 6; ++i) {
    const json& report = out["rows"][i]["report"];
    const json& row = page["rows"][i];
    CHECK(row.value("step", json()) ==
          (report.is_null() ? report : report.at("step_time_seconds")));
    CHECK(!row.at("why").get<std::string>().empty());
  }
  CHECK(exit_code("sweep scenarios/1f1b-4x8.json") == 2);
  CHECK(exit_code("sweep scenarios/1f1b-4x8.json --vary train.global_batch_size=4 --from none") ==
        2);
  CHECK(exit_code("sweep scenarios/llama3-8b-8xh100-bf16.json --vary "
                  "train.global_batch_size=8 cluster.gpus=1 cluster.nodes=1") ==
        1);  // does not fit
}

TEST_CASE("plan: the contract, and a table that fits the page") {
  const json out = json::parse(output(small_plan + "--tokens 1T --price 2 --json -"));
  for (const char* key : {"space", "simulated", "pruned", "infeasible", "rows", "frontier"})
    CHECK_MESSAGE(out.contains(key), key);
  CHECK(out["space"] ==
        out["simulated"].get<int>() + out["pruned"].get<int>() + out["infeasible"].get<int>());
  CHECK(out["rows"][0]["report"]["step_time_seconds"] > 0);
  CHECK(out["rows"][0]["scenario"]["cluster"]["gpus"] == 2);
  CHECK(out["by_gpus"][0]["run"]["money"].is_number());
  const json page = page_block(output(small_plan + "--tokens 1T --price 2 --html -"));
  CHECK(page.at("plan") == out);
  CHECK(page.at("rows").size() == out.at("simulated"));
  CHECK(page.at("winner") == 0);
  check_fits_100_columns(output(small_plan + "--tokens 1T --price 2 --top 3"));
  CHECK(output(small_plan + "--as-overrides").find("model.num_layers=2\n") != std::string::npos);
  CHECK(exit_code("plan llama3.2-1b --cluster dgx-h100") == 2);
  CHECK(exit_code("plan llama3.2-1b --gpus 8") == 2);
  CHECK(exit_code(small_plan + "--tokens many") == 2);
  CHECK(exit_code(small_plan + "--max-days 1d") == 2);  // of how many tokens?
  CHECK(exit_code(small_plan + "--tokens 15T --max-days 1h") == 1);
}
