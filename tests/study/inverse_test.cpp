// What one parameter must be for a measured step: answers that are fractions, and switches.
#include "sim/study/inverse.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/read.h"

using namespace stepsim;
using nlohmann::json;

namespace {

/// Two stages, one microbatch: 1 + 0.5 + 1 + 2 + 0.5 + 2 = 7 s, of it 6 in kernels, 3 on rank 0.
Scenario chain() {
  const json s{{"pipeline", {{"schedule", "1f1b"}}},
               {"model", {{"pipeline_model_parallel_size", 2}}},
               {"train", {{"global_batch_size", 1}, {"micro_batch_size", 1}}},
               {"costs", {{"forward_seconds", 1}, {"backward_seconds", 2}, {"p2p_seconds", 0.5}}}};
  return read_scenario_text(s.dump(), "x.json", {}, "", find_data());
}
const Explanation& explanation(const Inverse& found, const std::string& name) {
  const auto at = std::find_if(found.rows.begin(), found.rows.end(),
                               [&](const Explanation& r) { return r.name == name; });
  REQUIRE_MESSAGE(at != found.rows.end(), name);
  return *at;
}

}  // namespace

TEST_CASE("a slower step: each parameter by hand, nearest first") {
  const Inverse found = explain_step(chain(), 7.6);
  CHECK(found.predicted_seconds == doctest::Approx(7));
  // 7.6 = 6 f + 1 = 6 + g = 4 + 3 h.
  CHECK(*explanation(found, "given_kernels").factor == doctest::Approx(6 / 6.6).epsilon(1e-3));
  CHECK(*explanation(found, "given_p2p").factor == doctest::Approx(1 / 1.6).epsilon(1e-3));
  CHECK(*explanation(found, "slow_rank_0").factor == doctest::Approx(1.2).epsilon(1e-3));
  CHECK(explanation(found, "given_kernels").distance ==
        doctest::Approx(std::log(1.1) / 0.05).epsilon(1e-2));
  CHECK(found.rows[0].name == "given_kernels");
  for (const Explanation& r : found.rows) {
    CHECK(r.possible);
    CHECK(r.step_seconds == doctest::Approx(7.6).epsilon(2e-4));
  }
  for (size_t i = 1; i < found.rows.size(); ++i)
    CHECK(found.rows[i - 1].distance <= found.rows[i].distance);
}

TEST_CASE("a faster step: what cannot explain it says so, what makes it slower is no candidate") {
  // Without transfers 6 s are left.
  const Inverse found = explain_step(chain(), 5.9);
  CHECK(*explanation(found, "given_kernels").factor == doctest::Approx(6 / 4.9).epsilon(1e-3));
  const Explanation& p2p = explanation(found, "given_p2p");
  CHECK_FALSE(p2p.possible);
  CHECK(p2p.note.find("the step takes 6.0") != std::string::npos);
  CHECK(found.rows.back().name == "given_p2p");
  CHECK(found.rows.size() == 2);
  const std::string text = inverse_text(found);
  CHECK(text.find("Cannot explain it") != text.npos);
  CHECK(explain_step(chain(), 7).rows.empty());
}

TEST_CASE("an overlap that is not in effect is found, and one that hardly matters is not blamed") {
  const json layout{{"cluster", {{"system", "dgx-h100"}, {"gpus", 4}}},
                    {"model",
                     {{"hf_config", "llama3-8b"},
                      {"num_layers", 2},
                      {"tensor_model_parallel_size", 4},
                      {"sequence_parallel", true}}},
                    {"comm_overlap", {{"tp_comm_overlap", true}}},
                    {"mixed_precision", "bf16_mixed"},
                    {"dataset", {{"seq_length", 4096}}},
                    {"train", {{"global_batch_size", 2}, {"micro_batch_size", 1}}}};
  const Reread reread = [&](const std::vector<std::string>& overrides) {
    return read_scenario_text(layout.dump(), "x.json", overrides, "", find_data());
  };
  const StepOutcome off =
      outcome_of({.scenario = [&] { return reread({"comm_overlap.tp_comm_overlap=false"}); }});
  const Inverse found = explain_step(reread({}), off.seconds, reread);
  const Explanation& tp = explanation(found, "model.tp_comm_overlap");
  CHECK(tp.possible);
  CHECK(tp.step_seconds == off.seconds);
  CHECK(tp.distance == doctest::Approx(1));
  CHECK_FALSE(explanation(found, "env_vars.CUDA_DEVICE_MAX_CONNECTIONS").possible);
  // A slower clock explains as much.
  CHECK(*explanation(found, "clocks").factor < 1);
  const json j = json::parse(inverse_json(reread({}), found));
  CHECK(j["schema"] == "stepsim.explain_measured/1");
  CHECK(j["explanations"].size() == found.rows.size());
}
