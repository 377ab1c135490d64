#include "sim/report/contention.h"

#include <algorithm>
#include <map>
#include <vector>

#include "sim/base/units.h"
#include "sim/engine/processors.h"

namespace stepsim {
namespace {

using Role = ProcessorClaim::Role;

/// A change of the SMs held of one device.
struct Change {
  double time_seconds = 0;
  int64_t sms = 0;
};

/// A kernel that shares the device.
struct Shared {
  double start = 0, finish = 0, alone = 0;
  const ProcessorClaim* claim = nullptr;
};

/// Seconds lost to held SMs between the kernel's start and finish. `at` is the first change after
/// the kernel before; `held` what is held there.
double lost_to_sms(const Shared& kernel, const std::vector<Change>& changes, uint32_t size,
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

}  // namespace

Contention contention(const LoweredStep& step, const Timeline& timeline, StepEnd end,
                      double shared_seconds) {
  const TaskGraph& graph = step.graph;
  std::vector<std::vector<Change>> changes(graph.pool_sizes.size());
  std::vector<std::vector<Shared>> kernels(graph.pool_sizes.size());
  for (const FlowRow& flow : graph.flows) {
    const uint32_t t = index(flow.task);
    const double start = timeline.start_seconds[t], finish = timeline.finish_seconds[t];
    for (const ProcessorClaim& claim : graph.processor_claims_of(flow)) {
      const uint32_t pool = index(claim.pool);
      const auto count = static_cast<int64_t>(claim.count);
      if (claim.role == Role::run) {
        kernels[pool].push_back(
            {start, std::min(finish, end.seconds), graph.durations_seconds[t], &claim});
        continue;
      }
      // A member that arrived got its SMs when its arrival was over.
      if (claim.role == Role::hold) changes[pool].push_back({start, count});
      if (claim.role == Role::take) changes[pool].push_back({finish, count});
      if (claim.role != Role::take) changes[pool].push_back({finish, -count});
    }
  }
  Contention sum{.sm_seconds = 0, .memory_seconds = 0, .shared_seconds = shared_seconds};
  double ranks = 0;
  for (const SimulatedDevice& d : step.devices) ranks += static_cast<double>(d.represents);
  for (size_t d = 0; d < kernels.size() && d < step.devices.size(); ++d) {
    std::sort(changes[d].begin(), changes[d].end(),
              [](const Change& a, const Change& b) { return a.time_seconds < b.time_seconds; });
    std::sort(kernels[d].begin(), kernels[d].end(),
              [](const Shared& a, const Shared& b) { return a.start < b.start; });
    CompensatedSum sms, memory;
    size_t at = 0;
    int64_t held = 0;
    for (const Shared& kernel : kernels[d]) {
      const double excess = std::max(0.0, kernel.finish - kernel.start - kernel.alone);
      const double lost =
          std::min(excess, lost_to_sms(kernel, changes[d], graph.pool_sizes[d], at, held));
      sms.add(lost);
      memory.add(excess - lost);
    }
    const double weight = static_cast<double>(step.devices[d].represents) / std::max(1.0, ranks);
    sum.sm_seconds += weight * sms.value();
    sum.memory_seconds += weight * memory.value();
  }
  return sum;
}

}  // namespace stepsim
