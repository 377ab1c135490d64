// What a faulty rank's device does in the graph, on the one device that stands for all.
#include <doctest/doctest.h>

#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

Scenario all_ranks_with(Scenario s, const RankFault& fault) {
  s.faults.ranks.assign(static_cast<size_t>(s.parallel.world()), fault);
  return s;
}

}  // namespace

TEST_CASE("every kernel of a slow device takes its factor; launches and transfers keep theirs") {
  RankFault fault;
  fault.slowdown = 2;
  const Scenario s = tiny({.tp = 2, .cp = 2, .dp = 2, .sp = true});
  const LoweredStep sound = lowered(s), slow = lowered(all_ranks_with(s, fault));
  REQUIRE(slow.graph.task_count() == sound.graph.task_count());
  int kernels = 0, others = 0;
  for (uint32_t t = 0; t < sound.graph.task_count(); ++t) {
    const TaskClass c = row(Label::unpack(sound.graph.labels[t]).op).task_class;
    const bool kernel = c == TaskClass::compute || c == TaskClass::optimizer;
    (kernel ? kernels : others)++;
    CHECK(slow.graph.durations_seconds[t] ==
          doctest::Approx(sound.graph.durations_seconds[t] * (kernel ? 2 : 1)).epsilon(1e-12));
  }
  CHECK(kernels > 0);
  CHECK(others > 0);
}

TEST_CASE("what a faulty port has left is what its flows share") {
  const Scenario s = tiny({.tp = 2, .cp = 2, .dp = 4, .sp = true});
  RankFault fault;
  fault.nvlink_factor = 0.25;
  fault.nic_factor = 0.5;
  const LoweredStep sound = lowered(s), faulty = lowered(all_ranks_with(s, fault));
  REQUIRE(sound.graph.capacities.size() >= 5);  // NVLink out and in, NIC out and in, memory
  const double left[] = {0.25, 0.25, 0.5, 0.5, 1};
  for (size_t port = 0; port < 5; ++port)
    CHECK(faulty.graph.capacities[port] == sound.graph.capacities[port] * left[port]);
}

TEST_CASE("a delay is a named kernel before the work that it delays, once a pass or a step") {
  const Scenario s = tiny({.microbatches = 3});
  RankFault fault;
  fault.delay_per_forward = 1.0_s;
  fault.delay_per_backward = 2.0_s;
  fault.delay_per_step = 4.0_s;
  const LoweredStep step = lowered(all_ranks_with(s, fault));
  int forward = 0, backward = 0, once = 0;
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const Label label = Label::unpack(step.graph.labels[t]);
    if (label.op != OpKind::delay) continue;
    CHECK(stream_of(step.graph.streams[t]) == Stream::compute);
    const double seconds = step.graph.durations_seconds[t];
    forward += seconds == 1 && label.pass == Pass::forward;
    backward += seconds == 2 && label.pass == Pass::backward;
    once += seconds == 4;
  }
  CHECK(forward == 3);
  CHECK(backward == 3);
  CHECK(once == 1);
}
