#include "sim/report/idle_parts.h"

#include <algorithm>
#include <tuple>

#include "sim/report/course.h"

namespace stepsim {

namespace {

struct IdleCollector {
  std::vector<IdlePart> parts;

  void idle(uint32_t device, const IdleStretch& stretch) {
    if (stretch.seconds() > 0) parts.push_back({device, stretch.cause, stretch.low, stretch.high});
  }
  /// A blocking operation of the compute stream computes nothing.
  void busy(uint32_t device, const BusyStretch& stretch) {
    if (stretch.seconds <= 0) return;
    const auto add = [&](Cause cause) {
      parts.push_back({device, cause, stretch.finish - stretch.seconds, stretch.finish});
    };
    switch (stretch.op->task_class) {
      case TaskClass::compute:
      case TaskClass::optimizer:
        return;
      case TaskClass::host:
        return add(Cause::host);
      case TaskClass::communication:
        return add(exposed_cause(stretch.op->comm));
      case TaskClass::marker:
        return add(Cause::bubble);
    }
  }
};

}  // namespace

std::vector<IdlePart> idle_parts(const LoweredStep& step, const Timeline& timeline,
                                 const StepEnd& end) {
  IdleCollector collector;
  follow(step, timeline, end, collector);
  std::stable_sort(
      collector.parts.begin(), collector.parts.end(), [](const IdlePart& a, const IdlePart& b) {
        return std::tie(a.device, a.start_seconds) < std::tie(b.device, b.start_seconds);
      });
  return collector.parts;
}

}  // namespace stepsim
