// The chain of tasks that sets the step, by kind. Law: its parts add up to the step.
//
// From the task that ends the step back to time 0 along what each one waited for. A task accounts
// for the time from its start to the start of the one that it held up; a lag after a start (a
// launch under way) is the host's.
#pragma once

#include <string_view>
#include <vector>

#include "sim/report/step_end.h"

namespace stepsim {

/// Seconds of the critical path spent in tasks of one kind: compute, optimizer, host, tp, cp, pp,
/// dp, embedding.
struct PathPart {
  std::string_view kind;
  double seconds = 0;
};

/// Longest first; kinds without time are left out. "start" is time before the first task, normally
/// none.
std::vector<PathPart> critical_path(const LoweredStep& step, const Timeline& timeline, StepEnd end);

/// A task of the path and the stretch of time that it accounts for.
struct PathTask {
  TaskId task{};
  double start_seconds = 0, finish_seconds = 0;
};
/// From the first task to the last.
std::vector<PathTask> critical_tasks(const LoweredStep& step, const Timeline& timeline,
                                     StepEnd end);

/// Seconds of it in kernels and host work of each device: whose work sets the step. Transfers have
/// no owner.
std::vector<double> critical_seconds_by_device(const LoweredStep& step, const Timeline& timeline,
                                               StepEnd end);

}  // namespace stepsim
