// Ring: all-gather and reduce-scatter are one pass of n-1 steps, all-reduce is both, broadcast one
// chain through which the buffer is piped (NCCL src/graph/tuning.cc).
#include <algorithm>

#include "sim/network/nccl.h"

namespace stepsim {
namespace {

int ring_passes(Collective op) { return op == Collective::all_reduce ? 2 : 1; }

/// Members of a ring on `channel`, each domain entered on the rail on which the one before it was
/// left.
std::vector<int> ring_order(const GroupPlacement& group, int channel) {
  const int k = group.per_domain;
  std::vector<int> order;
  for (int domain = 0; domain < group.domains; ++domain)
    for (int i = 0; i < k; ++i) order.push_back(domain * k + ((channel - domain + i) % k + k) % k);
  return order;
}

Plan broadcast_plan(const GroupPlacement& group) {
  Plan plan;
  plan.channels = group.domains == 1 ? 1 : group.per_domain;
  for (int channel = 0; channel < plan.channels; ++channel) {
    plan.owner.push_back({0});
    std::vector<int> order = ring_order(group, channel);
    std::rotate(order.begin(), std::find(order.begin(), order.end(), 0), order.end());
    for (size_t p = 0; p + 1 < order.size(); ++p)
      plan.moves.push_back(
          {static_cast<int>(p), order[p], order[p + 1], channel, 0, /*reduce=*/false});
  }
  std::stable_sort(plan.moves.begin(), plan.moves.end(),
                   [](const Move& a, const Move& b) { return a.step < b.step; });
  return plan;
}

}  // namespace

bool ring_serves(Collective op, const GroupPlacement&, const Cluster&) {
  return op == Collective::all_reduce || op == Collective::all_gather ||
         op == Collective::reduce_scatter || op == Collective::broadcast;
}

CollectiveCost ring_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster, Protocol protocol) {
  const double n = group.size, k = group.per_domain;
  // A pass crosses each domain boundary but one and makes its other steps over NVLink.
  const Seconds hops = (n - group.domains) * cluster.device.nvlink_latency +
                       (group.domains - 1.0) * group.network_latency;
  CollectiveCost cost;
  cost.latency = (start_up(cluster) + ring_passes(op) * hops) * latency_factor(protocol);
  // Through each member of a chain goes the whole buffer, through each of a ring (n-1)/n of it.
  const double part = op == Collective::broadcast ? 1 : (n - 1) / n;
  const Seconds transfer =
      ring_transfer(ring_passes(op), bytes, group, cluster, protocol) * (part * n / (n - 1));
  cost.duration = cost.latency + transfer;
  cost.wire_bytes = ring_passes(op) * part * bytes;
  if (transfer > Seconds{}) {
    // In each domain one channel in k leaves through a given member's NIC; the others use its
    // NVLink port.
    const BytesPerSecond bus = cost.wire_bytes / transfer;
    const bool inside = group.domains == 1;
    cost.nvlink_rate = inside ? bus : bus * ((k - 1) / k);
    cost.nic_rate = inside ? BytesPerSecond{} : bus / k;
  }
  const int channels = allowed_channels(ring_channels(group, cluster), cluster);
  occupy(cost, protocol, busy_channels(bytes, channels, protocol, group.size), operands(op));
  return cost;
}

Plan ring_plan(Collective op, const GroupPlacement& group) {
  if (op == Collective::broadcast) return broadcast_plan(group);
  const int n = group.size;
  Plan plan;
  plan.channels = group.domains == 1 ? 1 : group.per_domain;
  plan.chunks = n;
  std::vector<std::vector<int>> ring;  // by channel, the members in ring order
  for (int channel = 0; channel < plan.channels; ++channel)
    ring.push_back(ring_order(group, channel));
  plan.owner = ring;
  const bool reduces = op != Collective::all_gather, gathers = op != Collective::reduce_scatter;
  int step = 0;
  const auto pass = [&](bool reduce) {
    // Reducing, the chunk of position q starts behind it and comes home last; gathering, it starts
    // at home.
    const int shift = reduce ? 1 : 0;
    for (int s = 0; s < n - 1; ++s, ++step)
      for (int channel = 0; channel < plan.channels; ++channel)
        for (int p = 0; p < n; ++p) {
          const std::vector<int>& order = ring[static_cast<size_t>(channel)];
          plan.moves.push_back({.step = step,
                                .from = order[static_cast<size_t>(p)],
                                .to = order[static_cast<size_t>((p + 1) % n)],
                                .channel = channel,
                                .chunk = ((p - s - shift) % n + n) % n,
                                .reduce = reduce});
        }
  };
  if (reduces) pass(true);
  if (gathers) pass(false);
  return plan;
}

}  // namespace stepsim
