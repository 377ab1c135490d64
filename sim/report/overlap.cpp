#include "sim/report/overlap.h"

#include <algorithm>
#include <span>

#include "sim/report/in_order.h"

namespace stepsim {
namespace {

bool computes(TaskClass c) { return c == TaskClass::compute || c == TaskClass::optimizer; }

/// What one device does, as intervals; classes in order of CommClass.
struct Activity {
  std::vector<Interval> compute;
  std::array<std::vector<Interval>, comm_class_count> transfers;
  std::array<double, comm_class_count> waiting_seconds{};
};

/// The arrival that a transfer of several members waited for last; no_task when it waited for none.
TaskId last_arrival(const LoweredStep& step, const Timeline& timeline, const RendezvousMember& m) {
  if (m.arrival == no_task) return no_task;
  TaskId last = timeline.binding[index(m.transfer)];
  const auto op = [&](TaskId t) { return Label::unpack(step.graph.labels[index(t)]).op; };
  if (last != no_task && op(last) == OpKind::meet) last = timeline.binding[index(last)];
  return last != no_task && op(last) == OpKind::arrive ? last : no_task;
}

}  // namespace

std::vector<Interval> interval_union(std::vector<Interval> intervals) {
  if (!std::is_sorted(intervals.begin(), intervals.end(), earlier))
    std::sort(intervals.begin(), intervals.end(), earlier);
  size_t kept = 0;
  for (const Interval i : intervals) {
    if (i.finish <= i.start) continue;
    if (kept > 0 && i.start <= intervals[kept - 1].finish) {
      intervals[kept - 1].finish = std::max(intervals[kept - 1].finish, i.finish);
    } else {
      intervals[kept++] = i;
    }
  }
  intervals.resize(kept);
  return intervals;
}

double length(const std::vector<Interval>& intervals) {
  CompensatedSum sum;
  for (const Interval i : intervals) sum.add(i.finish - i.start);
  return sum.value();
}

double common_length(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  CompensatedSum sum;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double shared = std::min(a[i].finish, b[j].finish) - std::max(a[i].start, b[j].start);
    if (shared > 0) sum.add(shared);
    if (a[i].finish < b[j].finish)
      ++i;
    else
      ++j;
  }
  return sum.value();
}

Interval moving(const LoweredStep& step, const Timeline& timeline, const RendezvousMember& m) {
  Interval i{timeline.start_seconds[index(m.transfer)], timeline.finish_seconds[index(m.transfer)]};
  // Waiting for SMs comes after arriving, as in a transfer that stands alone.
  if (const TaskId last = last_arrival(step, timeline, m); last != no_task)
    i.start = std::min(i.start, timeline.start_seconds[index(last)]);
  return i;
}

CommunicationTable communication(const LoweredStep& step, const Timeline& timeline, StepEnd end) {
  const TaskGraph& graph = step.graph;
  std::vector<Activity> activities(step.devices.size());
  std::array<bool, comm_class_count> present{};
  const auto clipped = [&](uint32_t t, uint32_t device) {
    const double low = end.begin(device), high = end.finish(device);
    return Interval{std::clamp(timeline.start_seconds[t], low, high),
                    std::clamp(timeline.finish_seconds[t], low, high)};
  };

  for (uint32_t t = 0; t < graph.task_count(); ++t) {
    const OpRow& op = row(Label::unpack(graph.labels[t]).op);
    if (op.comm != CommClass::none) present[static_cast<size_t>(op.comm)] = true;
    const StreamId stream = graph.streams[t];
    if (stream == no_stream) continue;
    Activity& activity = activities[device_of(stream)];
    if (op.task_class == TaskClass::communication) {
      append(activity.transfers[static_cast<size_t>(op.comm)], clipped(t, device_of(stream)));
    } else if (stream_of(stream) == Stream::compute && computes(op.task_class)) {
      append(activity.compute, clipped(t, device_of(stream)));
    }
  }
  for (const RendezvousMember& m : step.members) {
    const uint32_t t = index(m.transfer);
    const auto c = static_cast<size_t>(row(Label::unpack(graph.labels[t]).op).comm);
    Activity& activity = activities[device_of(m.stream)];
    Interval moves = clipped(t, device_of(m.stream));
    moves.start = std::min(moves.start, moving(step, timeline, m).start);
    append(activity.transfers[c], moves);
    if (m.arrival != no_task)
      activity.waiting_seconds[c] +=
          std::max(0.0, moves.start - timeline.start_seconds[index(m.arrival)]);
  }

  CommunicationTable table;
  double ranks = 0;
  for (size_t d = 0; d < activities.size(); ++d) {
    Activity& activity = activities[d];
    const auto weight = static_cast<double>(step.devices[d].represents);
    ranks += weight;
    const std::vector<Interval> compute = interval_union(std::move(activity.compute));
    std::vector<std::vector<Interval>> lists;
    const auto add = [&](std::optional<Communication>& sum, const std::vector<Interval>& transfers,
                         double waiting) {
      if (!sum) sum.emplace();
      sum->total_seconds += weight * length(transfers);
      sum->hidden_seconds += weight * common_length(transfers, compute);
      sum->waiting_seconds += weight * waiting;
    };
    double waiting = 0;
    for (size_t c = 1; c < comm_class_count; ++c) {
      if (!present[c]) continue;
      lists.push_back(interval_union(std::move(activity.transfers[c])));
      add(table.by_class[c], lists.back(), activity.waiting_seconds[c]);
      waiting += activity.waiting_seconds[c];
    }
    if (std::find(present.begin(), present.end(), true) != present.end())
      add(table.overall, interval_union(merge_lists(std::span(lists), earlier)), waiting);
  }
  const auto average = [&](std::optional<Communication>& sum) {
    if (!sum) return;
    for (double* s : {&sum->total_seconds, &sum->hidden_seconds, &sum->waiting_seconds})
      *s /= std::max(ranks, 1.0);
  };
  average(table.overall);
  for (auto& row : table.by_class) average(row);
  return table;
}

}  // namespace stepsim
