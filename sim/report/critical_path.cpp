#include "sim/report/critical_path.h"

#include <algorithm>
#include <array>

namespace stepsim {
namespace {

constexpr std::array<std::string_view, 12> kinds{"compute", "optimizer", "host",    "tp",
                                                 "cp",      "pp",        "dp",      "embedding",
                                                 "ep",      "edp",       "offload", "start"};
constexpr size_t host_kind = 2, start_kind = 11;

/// `arriving`: class of the transfer whose arrival this may be.
size_t kind_of(const OpRow& op, CommClass arriving) {
  switch (op.task_class) {
    case TaskClass::compute:
      return 0;
    case TaskClass::optimizer:
      return 1;
    case TaskClass::communication:
      return host_kind + static_cast<size_t>(op.comm);
    case TaskClass::marker:  // waits for its SMs, or for the end of the step before
      return arriving == CommClass::none ? start_kind : host_kind + static_cast<size_t>(arriving);
    case TaskClass::host:
      return host_kind;
  }
  return start_kind;
}

/// Calls `visit` with each task of the chain, the kind that its time counts as, and that time;
/// returns what is left before the first one.
template <class Visit>
double walk(const LoweredStep& step, const Timeline& timeline, StepEnd end, Visit visit) {
  double high = end.seconds;
  bool by_lag = false;
  CommClass arriving = CommClass::none;
  for (TaskId task = end.task; task != no_task;) {
    const double begin = std::min(high, timeline.start_seconds[index(task)]);
    const OpRow& op = row(label_of(step.graph, task).op);
    visit(task, by_lag ? host_kind : kind_of(op, arriving), high - begin);
    if (op.task_class != TaskClass::marker) arriving = op.comm;
    high = begin;
    const TaskId next = timeline.binding[index(task)];
    by_lag = next != no_task && !waited_for_finish(timeline, next, task);
    task = next;
  }
  return high;
}

}  // namespace

std::vector<PathPart> critical_path(const LoweredStep& step, const Timeline& timeline,
                                    StepEnd end) {
  std::array<CompensatedSum, kinds.size()> sums;
  const double high = walk(step, timeline, end, [&](TaskId task, size_t kind, double seconds) {
    (void)task;
    sums[kind].add(seconds);
  });
  sums[start_kind].add(high);

  std::vector<PathPart> parts;
  for (size_t k = 0; k < kinds.size(); ++k)
    if (sums[k].value() > 0) parts.push_back({kinds[k], sums[k].value()});
  std::stable_sort(parts.begin(), parts.end(),
                   [](const PathPart& a, const PathPart& b) { return a.seconds > b.seconds; });
  return parts;
}

std::vector<PathTask> critical_tasks(const LoweredStep& step, const Timeline& timeline,
                                     StepEnd end) {
  std::vector<PathTask> tasks;
  double high = end.seconds;
  walk(step, timeline, end, [&](TaskId task, size_t kind, double seconds) {
    (void)kind;
    tasks.push_back({task, high - seconds, high});
    high -= seconds;
  });
  std::reverse(tasks.begin(), tasks.end());
  return tasks;
}

std::vector<double> critical_seconds_by_device(const LoweredStep& step, const Timeline& timeline,
                                               StepEnd end) {
  std::vector<double> by_device(step.devices.size());
  walk(step, timeline, end, [&](TaskId task, size_t kind, double seconds) {
    const StreamId stream = step.graph.streams[index(task)];
    if (stream != no_stream && kind <= host_kind) by_device[device_of(stream)] += seconds;
  });
  return by_device;
}

}  // namespace stepsim
