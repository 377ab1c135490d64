// How a step moves with its parameters: scenarios whose answer is a fraction, and laws.
#include "sim/study/sensitivity.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/config/read.h"
#include "sim/study/knob.h"

using namespace stepsim;
using nlohmann::json;

namespace {

Scenario written(const json& scenario) {
  return read_scenario_text(scenario.dump(), "x.json", {}, "", find_data());
}
/// 1F1B of `pp` stages: forward 1 s, backward 2 s, every message `p2p`.
Scenario given(int pp, int microbatches, double p2p) {
  return written(
      {{"pipeline", {{"schedule", "1f1b"}}},
       {"model", {{"pipeline_model_parallel_size", pp}}},
       {"train", {{"global_batch_size", microbatches}, {"micro_batch_size", 1}}},
       {"costs", {{"forward_seconds", 1}, {"backward_seconds", 2}, {"p2p_seconds", p2p}}}});
}
json small(int gpus) {
  return {{"cluster", {{"system", "dgx-h100"}, {"gpus", gpus}}},
          {"model", {{"hf_config", "llama3-8b"}, {"num_layers", 2}}},
          {"ddp", {{"use_distributed_optimizer", true}}},
          {"mixed_precision", "bf16_mixed"},
          {"dataset", {{"seq_length", 2048}}},
          {"train", {{"global_batch_size", gpus}, {"micro_batch_size", 1}}}};
}
const SensitivityRow& row(const Sensitivity& s, const std::string& name) {
  const auto found = std::find_if(s.rows.begin(), s.rows.end(),
                                  [&](const SensitivityRow& r) { return r.name == name; });
  REQUIRE_MESSAGE(found != s.rows.end(), name);
  return *found;
}
bool has(const Sensitivity& s, const std::string& name) {
  return std::any_of(s.rows.begin(), s.rows.end(),
                     [&](const SensitivityRow& r) { return r.name == name; });
}

}  // namespace

TEST_CASE("given costs: elasticities are the shares of the one chain that there is") {
  // Two stages, one microbatch: 1 + 0.5 + 1 + 2 + 0.5 + 2 = 7, of it 6 in stages.
  const Sensitivity found = sensitivity(given(2, 1, 0.5));
  CHECK(found.step_seconds == doctest::Approx(7));
  CHECK(row(found, "given_kernels").elasticity == doctest::Approx(-6.0 / 7).epsilon(1e-4));
  CHECK(row(found, "given_p2p").elasticity == doctest::Approx(-1.0 / 7).epsilon(1e-4));
  CHECK(*row(found, "given_p2p").free_seconds == doctest::Approx(6));
  // Rank 0 runs 3 of the 7 seconds, and is made 1 % slower.
  CHECK(row(found, "slow_rank").better_seconds == doctest::Approx(7.03));
  CHECK_FALSE(has(found, "nic_bandwidth"));
  // Ranked: what helps most comes first.
  CHECK(found.rows[0].name == "given_kernels");
}

TEST_CASE("given costs: twice the microbatches halve the bubble") {
  // (m + p - 1) / m of the time without a bubble (Narayanan et al. 2021): 11/8, then 19/16.
  const Sensitivity found = sensitivity(given(4, 8, 0));
  const SensitivityRow& more = row(found, "microbatches");
  CHECK(more.better_seconds / 2 / found.step_seconds == doctest::Approx((19.0 / 16) / (11.0 / 8)));
  CHECK(row(found, "given_kernels").elasticity == doctest::Approx(-1));
  CHECK_FALSE(has(found, "given_p2p"));
  const std::string text = sensitivity_text(given(4, 8, 0), found);
  CHECK(text.find("time per token") != text.npos);
  CHECK(text.find("-13.636 %") != text.npos);
}

TEST_CASE("one GPU: a rate weighs what its kernels weigh, and all of it adds up") {
  const Scenario s = written(small(1));
  const Simulation sim = std::get<Simulation>(simulate(s));
  double gemms = 0, attention = 0;
  for (uint32_t t = 0; t < sim.lowered.graph.task_count(); ++t) {
    const OpKind op = Label::unpack(sim.lowered.graph.labels[t]).op;
    const double seconds = sim.timeline.finish_seconds[t] - sim.timeline.start_seconds[t];
    if (stepsim::row(op).name.ends_with("gemm")) gemms += seconds;
    if (op == OpKind::attention) attention += seconds;
  }
  const Sensitivity found = sensitivity(s);
  const auto weight = [&](const char* name) { return -row(found, name).elasticity; };
  // Gaps between kernels, and GEMMs that their bytes bind, are the rest.
  CHECK(weight("gemm_rate") < gemms / found.step_seconds);
  CHECK(weight("gemm_rate") > 0.75 * gemms / found.step_seconds);
  CHECK(weight("attention_rate") < attention / found.step_seconds);
  CHECK(weight("attention_rate") > 0.9 * attention / found.step_seconds);
  CHECK(weight("clocks") ==
        doctest::Approx(weight("gemm_rate") + weight("attention_rate")).epsilon(0.01));
  const double all = weight("gemm_rate") + weight("attention_rate") + weight("hbm_bandwidth") +
                     weight("launch_cost") + weight("step_overhead");
  CHECK(all > 0.95);
  CHECK(all < 1.001);
  for (const char* other : {"nic_bandwidth", "nvlink_bandwidth", "slow_rank"})
    CHECK_FALSE(has(found, other));
}

TEST_CASE("links that cost nothing have no say") {
  // Of one node's rings NVLink is the narrowest part; with a tenth of the NICs they are.
  Scenario s = turned(written(small(16)), knob("nic_bandwidth"), 0.1);
  CHECK(row(sensitivity(s), "nic_bandwidth").elasticity < -0.01);
  s = turned(std::move(s), knob("nic_bandwidth"), 1e9);
  CHECK(std::abs(row(sensitivity(s), "nic_bandwidth").elasticity) < 1e-6);
}

TEST_CASE("the same figures as JSON") {
  const Scenario s = given(2, 1, 0.5);
  const json j = json::parse(sensitivity_json(s, sensitivity(s)));
  CHECK(j["schema"] == "stepsim.sensitivity/1");
  CHECK(j["rows"][0]["name"] == "given_kernels");
  CHECK(j["rows"][0]["one_percent_better"].get<double>() ==
        doctest::Approx(-6.0 / 7 * 0.01).epsilon(0.01));
}
