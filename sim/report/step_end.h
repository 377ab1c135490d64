// Where the step ends, and how to tell the two kinds of waiting apart. Shared by the passes over a
// Timeline.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/engine/timeline.h"
#include "sim/lower/lowered.h"

namespace stepsim {

/// The end of the step: a global gradient-norm reduction or, without that barrier, the makespan;
/// where steps run back to back, their period.
struct StepEnd {
  double seconds = 0;
  TaskId task = no_task;         ///< the task whose finish it is; no_task in an empty graph
  std::vector<double> begins{};  ///< seconds at which each device begins; empty: all at 0

  double begin(size_t device) const { return begins.empty() ? 0 : begins[device]; }
  double finish(size_t device) const { return begin(device) + seconds; }
};

/// Ties go to the smallest task id.
StepEnd step_end(const LoweredStep& step, const Timeline& timeline);

/// True when `task` waited for its binding predecessor to finish, false when only for its start
/// plus a lag. The engine copies the binding finish into the start, so equality is exact.
inline bool waited_for_finish(const Timeline& timeline, TaskId binding, TaskId task) {
  return timeline.finish_seconds[index(binding)] == timeline.start_seconds[index(task)];
}

inline Label label_of(const TaskGraph& graph, TaskId task) {
  return Label::unpack(graph.labels[index(task)]);
}

/// Sum with a running compensation (Kahan 1965): millions of kernels add up to the step to
/// rounding.
class CompensatedSum {
 public:
  void add(double x) {
    const double y = x - lost_;
    const double next = sum_ + y;
    lost_ = (next - sum_) - y;
    sum_ = next;
  }
  double value() const { return sum_; }

 private:
  double sum_ = 0, lost_ = 0;
};

}  // namespace stepsim
