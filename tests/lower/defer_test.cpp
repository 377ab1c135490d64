// Deferred weight gradients of the output projection (Megatron-Core defer_embedding_wgrad_compute).
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// Tasks of the output projection's weight gradient by device.
std::vector<uint32_t> weight_gradients(const LoweredStep& step, uint32_t device) {
  std::vector<uint32_t> found;
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const Label l = Label::unpack(step.graph.labels[t]);
    if (step.graph.streams[t] != no_stream && device_of(step.graph.streams[t]) == device &&
        l.op == OpKind::output_gemm && l.pass == Pass::backward_weight)
      found.push_back(t);
  }
  return found;
}

/// Last compute task of any backward of a layer on `device`.
uint32_t last_layer_backward(const LoweredStep& step, uint32_t device) {
  uint32_t last = 0;
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const Label l = Label::unpack(step.graph.labels[t]);
    if (step.graph.streams[t] != no_stream && device_of(step.graph.streams[t]) == device &&
        l.op == OpKind::qkv_gemm && l.pass == Pass::backward_weight)
      last = t;
  }
  return last;
}

std::vector<std::string> deferring(const std::string& limit) {
  return {"model.defer_embedding_wgrad_compute=true", "model.wgrad_deferral_limit=" + limit};
}

}  // namespace

TEST_CASE("law: every microbatch's output weight gradient runs once, deferred or not") {
  for (const char* limit : {"0", "1", "3", "100"}) {
    CAPTURE(limit);
    const LoweredStep step = lowered(tiny({.pp = 2, .microbatches = 4}, deferring(limit)));
    const std::vector<uint32_t> gradients = weight_gradients(step, 1);
    CHECK(gradients.size() == 4);
    CHECK(weight_gradients(step, 0).empty());
    const int asked = std::stoi(limit), expected = asked == 0 ? 4 : std::min(asked, 4);
    const uint32_t drained = last_layer_backward(step, 1);
    CHECK(std::ranges::count_if(gradients, [&](uint32_t t) { return t > drained; }) == expected);
  }
}

TEST_CASE("what is deferred keeps its input and output gradient until the drain") {
  // Each of four microbatches: 2 bytes x (2048 x 1024 inputs + 2048 x 32000 output gradients), the
  // vocabulary of 32000 being a multiple of 128.
  const double kept = 2.0 * (2048 * 1024 + 2048 * 32000);
  const auto peak = [](const LoweredStep& step) {
    double live = 0, most = 0;
    for (const MemoryEvent& e : step.memory_events[1]) most = std::max(most, live += e.bytes);
    CHECK(live == 0);
    return most;
  };
  const LoweredStep now = lowered(tiny({.pp = 2, .microbatches = 4}));
  const LoweredStep later = lowered(tiny({.pp = 2, .microbatches = 4}, deferring("0")));
  // The last stage has one microbatch in flight; all four are kept when the drain starts.
  const double in_flight = now.memory_events[1].front().bytes;
  CHECK(peak(now) == in_flight);
  CHECK(peak(later) == std::max(3 * kept + in_flight, 4 * kept));
}
