#include "sim/report/contention.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/engine/processors.h"
#include "sim/report/in_order.h"
#include "sim/report/overlap.h"

namespace stepsim {
namespace {

using Role = ProcessorClaim::Role;

/// A change of the SMs held of one device.
struct Change {
  double time_seconds = 0;
  int64_t sms = 0;
};

/// A kernel that shares the device.
struct SharedKernel {
  double start = 0, finish = 0, alone = 0;
  const ProcessorClaim* claim = nullptr;
};

/// Of one device, up to the kernel before.
struct DeviceSums {
  CompensatedSum sms, memory, shared;
  size_t change = 0, other = 0;  ///< the first that may concern the next kernel
  int64_t held = 0;
};

/// Seconds lost to held SMs between the kernel's start and finish. `at` is the first change after
/// the kernel before; `held` what is held there.
double lost_to_sms(const SharedKernel& kernel, const std::vector<Change>& changes, uint32_t size,
                   size_t& at, int64_t& held) {
  while (at < changes.size() && changes[at].time_seconds <= kernel.start) held += changes[at++].sms;
  double lost = 0, low = kernel.start;
  int64_t now = held;
  for (size_t i = at; low < kernel.finish; ++i) {
    const double high =
        i < changes.size() ? std::min(changes[i].time_seconds, kernel.finish) : kernel.finish;
    const int64_t free = std::max<int64_t>(1, int64_t{size} - now);
    lost += (1 - runner_speed(*kernel.claim, static_cast<uint32_t>(free))) * (high - low);
    low = high;
    if (i < changes.size()) now += changes[i].sms;
  }
  return lost;
}

/// By claim set: whether a task with it does with some pool what `asked` says.
template <class Asked>
std::vector<uint8_t> sets_that(const TaskGraph& graph, Asked asked) {
  std::vector<uint8_t> result;
  for (const ClaimSet& set : graph.claim_sets) {
    const auto claims = graph.processor_claims.subspan(set.first_processor,
                                                       set.last_processor - set.first_processor);
    result.push_back(std::any_of(claims.begin(), claims.end(), asked));
  }
  return result;
}

/// Changes of each pool in order of time. Those of one queue come in order.
std::vector<std::vector<Change>> held_changes(const TaskGraph& graph, const Timeline& timeline) {
  const std::vector<uint8_t> holds =
      sets_that(graph, [](const ProcessorClaim& c) { return c.role != Role::run; });
  using ByQueue = std::array<std::vector<Change>, stream_count + 1>;
  std::vector<ByQueue> queues(graph.pool_sizes.size());
  for (const FlowRow& flow : graph.flows) {
    if (!holds[index(flow.set)]) continue;
    const uint32_t t = index(flow.task);
    const double start = timeline.start_seconds[t], finish = timeline.finish_seconds[t];
    const StreamId stream = graph.streams[t];
    const size_t queue =
        stream == no_stream ? stream_count : static_cast<size_t>(stream_of(stream));
    for (const ProcessorClaim& claim : graph.processor_claims_of(flow)) {
      std::vector<Change>& changes = queues[index(claim.pool)][queue];
      const auto count = static_cast<int64_t>(claim.count);
      if (claim.role == Role::run) continue;
      // A member that arrived got its SMs when its arrival was over.
      if (claim.role == Role::hold) changes.push_back({start, count});
      if (claim.role == Role::take) changes.push_back({finish, count});
      if (claim.role != Role::take) changes.push_back({finish, -count});
    }
  }
  std::vector<std::vector<Change>> changes;
  for (ByQueue& by_queue : queues)
    changes.push_back(merge_lists(
        std::span<std::vector<Change>>(by_queue),
        [](const Change& a, const Change& b) { return a.time_seconds < b.time_seconds; }));
  return changes;
}

/// When something runs beside the kernels of each device: transfers, and kernels of communication
/// that hold SMs while they wait for a peer.
std::vector<std::vector<Interval>> beside(const LoweredStep& step, const Timeline& timeline,
                                          const std::vector<std::vector<Change>>& changes) {
  std::vector<std::array<std::vector<Interval>, stream_count>> by_stream(step.devices.size());
  const auto add = [&](StreamId stream, TaskId task) {
    append(by_stream[device_of(stream)][static_cast<size_t>(stream_of(stream))],
           {timeline.start_seconds[index(task)], timeline.finish_seconds[index(task)]});
  };
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const StreamId stream = step.graph.streams[t];
    if (stream == no_stream || stream_of(stream) == Stream::compute) continue;
    if (row(label_of(step.graph, TaskId{t}).op).task_class == TaskClass::communication)
      add(stream, TaskId{t});
  }
  for (const RendezvousMember& m : step.members) add(m.stream, m.transfer);

  std::vector<std::vector<Interval>> intervals(step.devices.size());
  for (size_t d = 0; d < intervals.size(); ++d) {
    std::vector<std::vector<Interval>> lists(std::make_move_iterator(by_stream[d].begin()),
                                             std::make_move_iterator(by_stream[d].end()));
    std::vector<Interval>& holding = lists.emplace_back();
    int64_t held = 0;
    for (size_t i = 0; d < changes.size() && i < changes[d].size(); ++i) {
      if (held > 0) append(holding, {changes[d][i - 1].time_seconds, changes[d][i].time_seconds});
      held += changes[d][i].sms;
    }
    intervals[d] = interval_union(merge_lists(std::span(lists), earlier));
  }
  return intervals;
}

}  // namespace

Contention contention(const LoweredStep& step, const Timeline& timeline, StepEnd end) {
  const TaskGraph& graph = step.graph;
  const std::vector<std::vector<Change>> changes = held_changes(graph, timeline);
  const std::vector<std::vector<Interval>> others = beside(step, timeline, changes);

  // Kernels of one stream come in time order.
  const std::vector<uint8_t> runs =
      sets_that(graph, [](const ProcessorClaim& c) { return c.role == Role::run; });
  std::vector<DeviceSums> devices(step.devices.size());
  for (const FlowRow& flow : graph.flows) {
    if (!runs[index(flow.set)]) continue;
    const uint32_t t = index(flow.task);
    for (const ProcessorClaim& claim : graph.processor_claims_of(flow)) {
      if (claim.role != Role::run) continue;
      const uint32_t d = index(claim.pool);
      const SharedKernel kernel{timeline.start_seconds[t],
                                std::min(timeline.finish_seconds[t], end.finish(d)),
                                graph.durations_seconds[t], &claim};
      DeviceSums& sums = devices[d];
      const double excess = std::max(0.0, kernel.finish - kernel.start - kernel.alone);
      const double lost = std::min(
          excess, lost_to_sms(kernel, changes[d], graph.pool_sizes[d], sums.change, sums.held));
      sums.sms.add(lost);
      sums.memory.add(excess - lost);
      size_t& o = sums.other;
      while (o < others[d].size() && others[d][o].finish <= kernel.start) ++o;
      for (size_t i = o; i < others[d].size() && others[d][i].start < kernel.finish; ++i)
        sums.shared.add(std::min(others[d][i].finish, kernel.finish) -
                        std::max(others[d][i].start, kernel.start));
    }
  }
  Contention sum;
  double ranks = 0;
  for (const SimulatedDevice& d : step.devices) ranks += static_cast<double>(d.represents);
  for (size_t d = 0; d < devices.size(); ++d) {
    const double weight = static_cast<double>(step.devices[d].represents) / std::max(1.0, ranks);
    sum.sm_seconds += weight * devices[d].sms.value();
    sum.memory_seconds += weight * devices[d].memory.value();
    sum.shared_seconds += weight * devices[d].shared.value();
  }
  return sum;
}

}  // namespace stepsim
