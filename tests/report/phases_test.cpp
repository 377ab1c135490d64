#include "sim/report/phases.h"

#include <doctest/doctest.h>

#include "tests/report/small_step.h"

using namespace stepsim;

// rank 0: adam [0, 1] forward [1, 3] backward [3, 5]   waits for the reduction, norm [9, 10]
// rank 1: adam [0, 1] forward [1, 3] backward [3, 7]   reduction [7, 9],        norm [9, 10]
// Scaling a bucket in the middle of backward ends nothing.
TEST_CASE("ranks that wait for each other show equal phases, whoever is late") {
  SmallStep s(two_peers);
  const auto kernel = [&](uint32_t device, OpKind op, Pass pass, double seconds,
                          std::initializer_list<TaskId> after = {}) {
    return s.add(device, Stream::compute, op, seconds, after, {.pass = pass});
  };
  std::vector<TaskId> scaled;
  for (uint32_t d : {0U, 1U}) {
    kernel(d, OpKind::adam, Pass::step, 1);
    kernel(d, OpKind::fc1_gemm, Pass::forward, 2);
    kernel(d, OpKind::fc1_gemm, Pass::backward_data, 1);
    scaled.push_back(kernel(d, OpKind::grad_scale, Pass::step, 0.5));
    scaled.back() = kernel(d, OpKind::fc1_gemm, Pass::backward_weight, d == 0 ? 0.5 : 2.5);
  }
  const TaskId arrival = s.add(1, Stream::dp, OpKind::arrive, 0, {scaled[1]});
  const TaskId reduction = s.add(0, Stream::dp, OpKind::dp_reduce_scatter, 2, {scaled[0], arrival});
  s.join(reduction, 1, Stream::dp, arrival);
  for (uint32_t d : {0U, 1U}) kernel(d, OpKind::grad_norm, Pass::step, 1, {reduction});
  const RanStep ran = std::move(s).run();
  for (const Phases& p : phases(ran.step, ran.timeline, step_end(ran.step, ran.timeline))) {
    CHECK(p.forward_seconds == doctest::Approx(2));
    CHECK(p.backward_seconds == doctest::Approx(6));
    CHECK(p.optimizer_seconds == doctest::Approx(2));
  }
}
