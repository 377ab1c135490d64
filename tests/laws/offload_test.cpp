// What offload to the host costs and what it cannot, as laws.
#include <doctest/doctest.h>

#include "sim/report/check.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

std::vector<Layout> offload_layouts() {
  return {{.layers = 5},
          {.dp = 4, .microbatches = 3, .layers = 4, .grad_overlap = true, .gather_overlap = true},
          {.tp = 4, .cp = 2, .layers = 3, .sp = true},
          {.dp = 2, .layers = 4, .precision = "bf16_with_fp8_current_scaling_mixed"}};
}

Scenario offload_of(const Layout& l, int offloaded, double speed = 1) {
  nlohmann::json json = scenario_json("llama3.2-1b", "dgx-h100", l);
  if (offloaded >= 0) {
    json["model"]["cpu_offloading"] = true;
    json["model"]["cpu_offloading_num_layers"] = offloaded;
  }
  Scenario s = read(json);
  s.cluster.device.host_bandwidth *= speed;
  if (speed > 1) s.cluster.device.host_latency = {};
  return s;
}

}  // namespace

TEST_CASE("law: no offloaded layer, the plain step to the bit") {
  for (const Layout& l : offload_layouts())
    CHECK(seconds_of(offload_of(l, 0)) == seconds_of(offload_of(l, -1)));
}

TEST_CASE("cpu_offloading_activations false moves no activations") {
  nlohmann::json json = scenario_json("llama3.2-1b", "dgx-h100", {.layers = 3});
  const double plain = seconds_of(read(json));
  json["model"]["cpu_offloading"] = true;
  json["model"]["cpu_offloading_num_layers"] = 2;
  CHECK(seconds_of(read(json)) > plain);
  json["model"]["cpu_offloading_activations"] = false;
  CHECK(seconds_of(read(json)) == plain);
}

// Launching the copies is left: their host time hides behind kernels.
TEST_CASE("law: over an infinitely fast link the step is the plain one") {
  for (Layout l : offload_layouts()) {
    CAPTURE(l);
    l.sequence = 16384;
    const double plain = seconds_of(offload_of(l, -1), apart);
    for (int n = 1; n < l.layers; ++n)
      CHECK(relative(seconds_of(offload_of(l, n, 1e12), apart), plain) < 1e-4);
  }
}

TEST_CASE("law: a slower link never shortens the step, and what it exposes is in the ledger") {
  for (const Layout& l : offload_layouts()) {
    CAPTURE(l);
    const int n = l.layers - 1;
    const auto ran = [&](double speed) { return step_of(offload_of(l, n, speed), apart).report; };
    const Report fast = ran(1e12), given = ran(1), slow = ran(0.1);
    CHECK(fast.step_seconds <= given.step_seconds);
    CHECK(given.step_seconds < slow.step_seconds);
    CHECK(slow.ledger[Cause::exposed_offload] > given.ledger[Cause::exposed_offload]);
  }
}

TEST_CASE("law: offload folded and unfolded is one step; a check sizes the same memory") {
  for (const Layout& l : offload_layouts()) {
    CAPTURE(l);
    const Scenario s = offload_of(l, 2);
    const Simulation ran = step_of(s);
    CHECK(ran.report.step_seconds == seconds_of(s, {.unfold = true}));
    CHECK(make_check(s).memory->peak_bytes() == ran.report.memory->peak_bytes());
  }
}
