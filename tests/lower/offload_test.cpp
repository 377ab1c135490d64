// Activations of whole layers on the host: when they move, how many bytes, what they free.
#include "sim/lower/offload.h"

#include <doctest/doctest.h>

#include "sim/engine/engine.h"
#include "tests/lower/course.h"
#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

constexpr double offloaded_bytes = 2048.0 * 1024 * 32 + 2048 * 16 * 4.0;  // as in step_test.cpp

Scenario offloading(int layers, int offloaded, int microbatches = 1) {
  return tiny({.microbatches = microbatches, .layers = layers},
              {"model.cpu_offloading=true",
               "model.cpu_offloading_num_layers=" + std::to_string(offloaded)});
}

}  // namespace

// layer_window_map of Transformer Engine's handler: (L / n) (i + 1) - 1, one layer more for each
// group among the first L mod n.
TEST_CASE("copies are spread over the forward") {
  CHECK(offload_windows(8, 4) == std::vector{-1, 0, -1, 1, -1, 2, -1, 3});
  CHECK(offload_windows(5, 2) == std::vector{-1, -1, 0, -1, 1});
  CHECK(offload_windows(3, 2) == std::vector{-1, 0, 1});
  CHECK(offload_windows(4, 1) == std::vector{-1, -1, -1, 0});
  CHECK(offload_windows(2, 0) == std::vector{-1, -1});
}

// By hand for four layers, two of them offloaded: windows end behind layers 1 and 3.
TEST_CASE("a copy begins where the one before is over; reloads mirror it") {
  CHECK(offload_course(lowered(offloading(4, 2))) == "f0 >0 f1 >1 f2 f3 <1 b3 b2 <0 b1 b0");
  CHECK(offload_course(lowered(offloading(3, 1))) == "f0 >0 f1 f2 <0 b2 b1 b0");
}

TEST_CASE("a copy takes the layer's bytes over the host link's rate and no SMs") {
  const Scenario s = offloading(4, 2);
  // PCIe Gen5 x16 of hardware/gpus/h100.json: 64 GB/s at 0.81, 5 us.
  const double seconds = 5e-6 + offloaded_bytes / (64e9 * 0.81);
  const CollectiveCost cost = host_copy_cost(s.cluster.device, {offloaded_bytes});
  CHECK(cost.duration.value == doctest::Approx(seconds).epsilon(1e-12));
  CHECK(cost.sms == 0);
  CHECK(cost.hbm_rate.value == doctest::Approx(64e9 * 0.81).epsilon(1e-12));
  const LoweredStep step = lowered(s);
  int copies = 0;
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const OpKind op = Label::unpack(step.graph.labels[t]).op;
    if (op != OpKind::offload_out && op != OpKind::offload_in) continue;
    CHECK(step.graph.durations_seconds[t] == doctest::Approx(seconds).epsilon(1e-6));
    ++copies;
  }
  CHECK(copies == 4);
}

// The layer whose copy is under way is on the device, the others are not.
TEST_CASE("law: offloaded layers leave the peak but for one") {
  const double all = lowered(offloading(6, 0)).memory[0].activations;
  for (int n = 1; n < 6; ++n)
    CHECK(all - lowered(offloading(6, n)).memory[0].activations == (n - 1) * offloaded_bytes);
}
