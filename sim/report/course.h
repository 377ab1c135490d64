// The course of each device's compute stream through a step: what runs on it, and for every idle
// stretch the chain of what it waited for.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/report/idle.h"

namespace stepsim {

/// A task of the compute stream, clipped to the step; `excess`: beyond its time alone.
struct BusyStretch {
  TaskId task = no_task;
  const OpRow* op = nullptr;
  double finish = 0, seconds = 0, excess = 0;
};

/// Calls visit.busy and visit.idle for all that happens on the compute streams, in task order;
/// what is idle at the end of a device's step comes last.
template <class Visit>
void follow(const LoweredStep& step, const Timeline& timeline, const StepEnd& end, Visit& visit) {
  const TaskGraph& graph = step.graph;
  const IdleWalk walk(step, timeline);
  /// What one device has been through.
  struct Course {
    double cursor_seconds = 0;
    TaskId last = no_task;  ///< a task of any of its streams that finishes at the step end
  };
  std::vector<Course> courses(step.devices.size());
  for (size_t d = 0; d < courses.size(); ++d) courses[d].cursor_seconds = end.begin(d);
  size_t flow = 0;  // flows are in ascending task order
  for (uint32_t t = 0; t < graph.task_count(); ++t) {
    const StreamId stream = graph.streams[t];
    if (stream == no_stream) continue;
    const uint32_t device = device_of(stream);
    Course& course = courses[device];
    const double until = end.finish(device);
    if (timeline.finish_seconds[t] == until && course.last == no_task) course.last = TaskId{t};
    if (stream_of(stream) != Stream::compute) continue;
    const double start = std::min(timeline.start_seconds[t], until);
    const double finish = std::min(timeline.finish_seconds[t], until);
    if (start > course.cursor_seconds) {
      const TaskId binding = timeline.binding[t];
      // A task cut off by the step end waits for nothing within it; the tail below explains that
      // stretch.
      if (timeline.start_seconds[t] > until) continue;
      const bool by_lag = binding != no_task && !waited_for_finish(timeline, binding, TaskId{t});
      walk.explain(visit, device, course.cursor_seconds, start, binding, TaskId{t}, by_lag);
    }
    while (flow < graph.flows.size() && index(graph.flows[flow].task) < t) ++flow;
    const bool claims = flow < graph.flows.size() && index(graph.flows[flow].task) == t;
    const double seconds = finish - std::max(start, course.cursor_seconds);
    const double excess = claims ? std::max(0.0, seconds - graph.durations_seconds[t]) : 0.0;
    visit.busy(device, BusyStretch{TaskId{t}, &row(Label::unpack(graph.labels[t]).op), finish,
                                   std::max(0.0, seconds), excess});
    course.cursor_seconds = std::max(course.cursor_seconds, finish);
  }
  for (uint32_t d = 0; d < courses.size(); ++d)
    walk.explain(visit, d, courses[d].cursor_seconds, end.finish(d),
                 courses[d].last != no_task ? courses[d].last : end.task, no_task, false);
}

}  // namespace stepsim
