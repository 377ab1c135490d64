// Parameters that only steps can tell, fitted to steps.
#include "sim/study/calibrate_steps.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/study/calibrate_system.h"

using namespace stepsim;
using nlohmann::json;

namespace {

/// A few layers on one node: bound by the GPU, or by the host where `width` is small.
StepSample small_step(const std::string& id, int width, int tokens) {
  const json scenario{{"cluster", {{"system", "dgx-h100"}, {"nodes", 1}}},
                      {"model",
                       {{"num_layers", 2},
                        {"hidden_size", width},
                        {"num_attention_heads", width / 128},
                        {"vocab_size", 32000}}},
                      {"dataset", {{"seq_length", tokens}}},
                      {"train", {{"global_batch_size", 8}}}};
  StepSample sample;
  sample.file = "small";
  sample.row.row.id = sample.row.row.scenario = sample.row.row.group = id;
  sample.row.row.scored = true;
  sample.row.scenario = read_scenario_text(scenario.dump(), id, {}, "", find_data());
  sample.row.scenario->model.name = id;
  return sample;
}

std::vector<StepSample> small_steps() {
  return {small_step("alpha-1", 8192, 8192), small_step("alpha-2", 8192, 4096),
          small_step("beta-1", 4096, 8192),  small_step("beta-2", 512, 512),
          small_step("gamma-1", 1024, 512),  small_step("gamma-2", 512, 1024)};
}

/// What a machine with other parameters would have measured.
void measure(std::vector<StepSample>& samples, double sustained, double dispatch_us) {
  for (StepSample& sample : samples) {
    std::vector<StepRow> row{sample.row};
    row[0].scenario->cluster.device.sustained = sustained;
    row[0].scenario->cluster.stack.dispatch = {dispatch_us * 1e-6};
    predict(row);
    REQUIRE(row[0].row.failure.empty());
    sample.row.row.measured_seconds = row[0].row.predicted_seconds;
  }
}

std::vector<StepParameter> host_and_clock() {
  std::vector<StepParameter> two;
  for (const StepParameter& p : shipped_step_parameters(find_data()))
    for (const StepPlace& place : p.places)
      if (place.device == "h100" ||
          (place.system == "dgx-h100" && p.row->key == "dispatch" && place.stack[0] == 'M'))
        two.push_back(p);
  return two;
}

}  // namespace

// Law: steps of a machine whose parameters are known give them back.
TEST_CASE("steps give back the parameters that they were made with") {
  std::vector<StepSample> samples = small_steps();
  measure(samples, 0.7, 100);
  const StepCalibration fit = calibrate_steps(samples, host_and_clock());
  REQUIRE(fit.parameters.size() == 2);
  CHECK(fit.steps == 6);
  for (const FittedStepParameter& p : fit.parameters) {
    CAPTURE(label(p.parameter));
    const double made = p.parameter.row->key == "dispatch" ? 100 : 0.7;
    CHECK(p.after == doctest::Approx(made).epsilon(0.015));
    CHECK(p.steps >= 2);
    CHECK(std::abs(p.parameter.value / made - 1) > 0.05);
  }
  // Exact rows: each family is predicted from the others.
  REQUIRE(fit.families.size() == 3);
  for (const StepGroup& family : fit.families) CHECK(family.without.mean_abs < 0.02);
  CHECK(calibration_text(fit).find("alpha") != std::string::npos);
}

TEST_CASE("rows of one scenario share one vote, and what no step feels stays") {
  std::vector<StepSample> samples = small_steps();
  samples.resize(3);  // bound by the GPU
  samples[1].row.row.scenario = samples[0].row.row.scenario;
  measure(samples, 0.7, 70);
  const StepCalibration fit = calibrate_steps(samples, host_and_clock());
  CHECK(fit.steps == 2);
  REQUIRE(fit.parameters.size() == 1);
  CHECK(fit.parameters[0].parameter.row->key == "sustained");
  REQUIRE(fit.untold.size() == 1);
  CHECK(fit.untold[0].starts_with("dispatch"));
  CHECK_THROWS_AS(calibrate_steps({}, host_and_clock()), Error);
  CHECK_THROWS_AS(calibrate_steps(small_steps(), {}), Error);
}

// Every place of a shipped parameter holds its value, and what is written is read again.
TEST_CASE("shipped parameters stand in hardware files") {
  const auto parameters = shipped_step_parameters(find_data());
  CHECK(parameters.size() >= 5);
  StepCalibration fit;
  fit.files = {"a.jsonl"};
  for (const StepParameter& p : parameters) fit.parameters.push_back({p, p.value, 0.01, 3});
  for (const auto& [name, text] : fitted_files(fit, find_data())) {
    CAPTURE(name);
    json before = json::parse(std::ifstream("hardware/" + name)), after = json::parse(text);
    if (name.starts_with("gpus/"))
      CHECK(after["sources"]["/sustained"].get<std::string>().starts_with("fit: +- 0.01, 3 "));
    before.erase("sources");
    after.erase("sources");
    CHECK(before == after);
  }
}

TEST_CASE("a family is what a name says before its first number") {
  CHECK(family_of("llama3.1-405b-l42") == "llama");
  CHECK(family_of("deepseek-v3") == "deepseek");
  CHECK(family_of("gpt-oss-120b") == "gpt-oss");
  CHECK(family_of("nemotron-3-super") == "nemotron");
}

TEST_CASE("one's own steps are a table of scenarios and times") {
  const std::string file =
      (std::filesystem::temp_directory_path() / "stepsim_own_steps.csv").string();
  std::ofstream(file) << "name,scenario,step_seconds\n"
                      << "run a," << std::filesystem::absolute("scenarios/1f1b-4x8.json").string()
                      << ",0.033\n";
  std::vector<StepRow> rows = read_step_rows(file, find_data());
  REQUIRE(rows.size() == 1);
  predict(rows);
  // The scenario's own description: 33 ms.
  CHECK(rows[0].row.error() == doctest::Approx(0));
  CHECK(rows[0].row.scored);
  std::ofstream(file) << "name,scenario,step_seconds\nrun a,scenarios/1f1b-4x8.json,0\n";
  CHECK_THROWS_AS(read_step_rows(file, find_data()), Error);
  std::filesystem::remove(file);
}
