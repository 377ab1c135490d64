// PAT: all-gather and reduce-scatter of one rank a domain in a logarithmic number of steps (NCCL
// src/graph/tuning.cc; Bruck et al. 1997): few hops for many ranks, at a lower rate than the ring.
#include <algorithm>
#include <bit>

#include "sim/network/nccl.h"

namespace stepsim {
namespace {

constexpr double pat_part = 0.75;          // src/graph/tuning.cc
constexpr Seconds work_per_rank = 2.8_us;  // src/graph/tuning.cc
constexpr int pat_version = 22300;

}  // namespace

bool pat_serves(Collective op, const GroupPlacement& group, const Cluster& cluster) {
  return (op == Collective::all_gather || op == Collective::reduce_scatter) &&
         group.per_domain == 1 && group.domains == group.size &&
         (cluster.nccl.version == 0 || cluster.nccl.version >= pat_version);
}

CollectiveCost pat_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                        const Cluster& cluster, Protocol protocol) {
  const double levels = std::bit_width(static_cast<unsigned>(group.size - 1));
  CollectiveCost cost;
  cost.latency = start_up(cluster) + levels * group.network_latency + group.size * work_per_rank;
  const Seconds transfer = ring_transfer(1, bytes, group, cluster, protocol) / pat_part;
  cost.duration = cost.latency + transfer;
  cost.wire_bytes = (group.size - 1.0) / group.size * bytes;
  if (transfer > Seconds{}) cost.nic_rate = cost.wire_bytes / transfer;
  occupy(cost, protocol, allowed_channels(ring_channels(group, cluster), cluster), operands(op));
  return cost;
}

// Gathering, member m sends all it has, at most what is missing, to m + 1, m + 2, m + 4, ...;
// reducing, the same moves go backwards.
Plan pat_plan(Collective op, const GroupPlacement& group) {
  const int n = group.size;
  Plan plan;
  plan.chunks = n;
  plan.owner.emplace_back();
  for (int chunk = 0; chunk < n; ++chunk) plan.owner[0].push_back(chunk);
  const bool reduce = op == Collective::reduce_scatter;
  const int steps = static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1)));
  for (int step = 0; step < steps; ++step) {
    const int forward = reduce ? steps - 1 - step : step, distance = 1 << forward;
    for (int m = 0; m < n; ++m)
      for (int i = 0; i < std::min(distance, n - distance); ++i) {
        const int to = (m + distance) % n, chunk = ((m - i) % n + n) % n;
        plan.moves.push_back({step, reduce ? to : m, reduce ? m : to, 0, chunk, reduce});
      }
  }
  return plan;
}

}  // namespace stepsim
