#include "sim/report/critical_path.h"

#include <doctest/doctest.h>

#include "tests/report/small_step.h"

using namespace stepsim;

namespace {

std::vector<PathPart> path_of(const RanStep& ran) {
  return critical_path(ran.step, ran.timeline, step_end(ran.step, ran.timeline));
}
double total(const std::vector<PathPart>& parts) {
  double sum = 0;
  for (const PathPart& p : parts) sum += p.seconds;
  return sum;
}

}  // namespace

TEST_CASE("the critical path crosses devices and streams") {
  // launch lag 1, compute 4, pp 2, compute 3, dp 5 = 15; stage 0's second kernel is off the path.
  SmallStep s(two_stages);
  const TaskId launch = s.add(0, Stream::host, OpKind::launch, 1);
  const TaskId a = s.compute(0, 4);
  s.launched(launch, a, 1);
  s.compute(0, 2);
  const TaskId b = s.compute(1, 3, {s.send(0, 1, 2, a)});
  s.add(1, Stream::dp, OpKind::dp_reduce_scatter, 5, {b});
  const std::vector<PathPart> path = path_of(std::move(s).run());
  REQUIRE(path.size() == 4);
  CHECK(path[0].kind == "compute");
  CHECK(path[0].seconds == 7);
  CHECK(path[1].kind == "dp");
  CHECK(path[1].seconds == 5);
  CHECK(path[2].kind == "pp");
  CHECK(path[2].seconds == 2);
  CHECK(path[3].kind == "host");
  CHECK(path[3].seconds == 1);
}

TEST_CASE("a task that others only need to have started counts up to their start") {
  // Kernel b may start 1 s after a starts (lag), and runs longer than a.
  SmallStep s(one_device);
  const TaskId a = s.add(0, Stream::tp, OpKind::tp_all_gather, 3);
  s.launched(a, s.compute(0, 5), 1);
  const std::vector<PathPart> path = path_of(std::move(s).run());
  REQUIRE(path.size() == 2);
  CHECK(path[0].seconds == 5);
  CHECK(path[1].kind == "host");
  CHECK(path[1].seconds == 1);
}

TEST_CASE("parts add up to the step") {
  for (const double transfer : {0.0, 0.013, 0.4}) {
    const RanStep ran = one_f_one_b_step(5, 17, 0.1, 0.23, transfer);
    CHECK(total(path_of(ran)) == doctest::Approx(ran.timeline.makespan_seconds).epsilon(1e-12));
  }
}

TEST_CASE("an empty graph has no path and no time") {
  SmallStep s(one_device);
  const RanStep ran = std::move(s).run();
  CHECK(path_of(ran).empty());
}
