// Adapters, offload of modules and of the optimizer: folded and unfolded alike, sized as they run.
#include <doctest/doctest.h>

#include "sim/cost/model_flops.h"
#include "sim/report/check.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

struct Setting {
  const char* name;
  nlohmann::json peft, model, optimizer;
};

std::vector<Setting> tuning_settings() {
  return {{"adapters", {{"scheme", "lora"}}, {}, {}},
          {"qkv adapters", {{"target_modules", {"linear_qkv"}}, {"dim", 16}}, {}, {}},
          {"module offload",
           {},
           {{"fine_grained_activation_offloading", true},
            {"offload_modules", {"attn_norm", "core_attn", "attn_proj"}}},
           {}},
          {"host optimizer",
           {},
           {},
           {{"optimizer_cpu_offload", true},
            {"optimizer_offload_fraction", 0.5},
            {"overlap_cpu_optimizer_d2h_h2d", true}}}};
}

Scenario tuned(const Setting& setting, const Layout& l) {
  nlohmann::json json = scenario_json("llama3.2-1b", "dgx-h100", l);
  if (!setting.peft.is_null()) json["peft"] = setting.peft;
  if (!setting.model.is_null()) json["model"].update(setting.model);
  if (!setting.optimizer.is_null()) json["optimizer"] = setting.optimizer;
  return read(json);
}

std::vector<Layout> tuning_layouts() {
  return {{.layers = 2},
          {.tp = 2, .cp = 2, .dp = 2, .layers = 2, .sp = true, .tp_overlap = true},
          {.tp = 2, .dp = 2, .layers = 2, .grad_overlap = true, .gather_overlap = true},
          {.dp = 2, .pp = 2, .vp = 2, .microbatches = 4, .grad_overlap = true},
          {.tp = 2, .layers = 2, .recompute = "uniform"},
          {.dp = 2, .layers = 2, .precision = "bf16_with_fp8_current_scaling_mixed"}};
}

}  // namespace

TEST_CASE("law: tuned steps folded and unfolded are one; a check sizes the same memory") {
  for (const Setting& setting : tuning_settings())
    for (const Layout& l : tuning_layouts()) {
      CAPTURE(std::string(setting.name));
      CAPTURE(l);
      const Scenario s = tuned(setting, l);
      const Simulation ran = step_of(s);
      CHECK(ran.report.step_seconds == seconds_of(s, {.unfold = true}));
      CHECK(make_check(s).memory->peak_bytes() == ran.report.memory->peak_bytes());
      CHECK(ran.report.tasks <= estimated_tasks(s, s.parallel.pp));
    }
}

// Hidden 2048, 32 heads and 8 groups of 64, MLP 8192: qkv 3072, fc1 16384 wide.
TEST_CASE("law: adapters hold rank times what goes in and out, split over TP") {
  constexpr double layer = 32.0 * ((2048 + 3072) + (2048 + 2048) + (2048 + 16384) + (8192 + 2048));
  for (const int tp : {1, 2, 4}) {
    const Scenario s = tuned(tuning_settings()[0], {.tp = tp, .layers = 3});
    const CheckReport check = make_check(s);
    CHECK(check.memory->sizes.optimizer == doctest::Approx(3 * layer / tp * 12).epsilon(1e-4));
  }
}

TEST_CASE("law: FLOPs of frozen weights are two thirds, attention in full") {
  const Layout l{.layers = 2};
  const Scenario whole = tuned({"", {}, {}, {}}, l), frozen = tuned(tuning_settings()[0], l);
  CHECK(model_flops(frozen).value == model_flops(whole, {.adapters = true}).value);
  CHECK(model_flops(frozen).value < model_flops(whole).value);
}
