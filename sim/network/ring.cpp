// Ring: all-gather and reduce-scatter are one pass of n-1 steps, all-reduce is both (NCCL
// src/graph/tuning.cc).
#include <algorithm>

#include "sim/network/algorithm.h"

namespace stepsim {
namespace {

int passes(Collective op) { return op == Collective::all_reduce ? 2 : 1; }

}  // namespace

BytesPerSecond nvlink_bus(const Cluster& cluster) {
  return cluster.device.nvlink_bandwidth * cluster.device.nvlink_efficiency;
}

Seconds start_up(const Cluster& cluster) {
  return cluster.device.nvlink_half_message / nvlink_bus(cluster);
}

int ring_channels(const Cluster& cluster) {
  return cluster.device.architecture == "blackwell" ? 16 : 24;
}

void set_memory_rate(Collective op, CollectiveCost& cost) {
  const bool reduces = op == Collective::all_reduce || op == Collective::reduce_scatter;
  cost.hbm_rate = (cost.nvlink_rate + cost.nic_rate) * (reduces ? 3 : 2);
}

// Every member's port carries (n-1)/n of the bytes, and own_share/n more in time: its own shard is
// copied, not received, and the pipeline fills meanwhile. That is why 2 ranks reach two thirds of
// the bus bandwidth and 8 nearly all of it. Between domains k = per_domain channels leave each
// domain through k NICs, so each NIC carries (n-1)/n/k of the bytes.
Seconds ring_transfer(int passes, Bytes bytes, const GroupPlacement& group,
                      const Cluster& cluster) {
  const double n = group.size;
  Seconds transfer;
  if (group.per_domain > 1) {
    const double steps = n - 1 + cluster.device.nvlink_own_share;
    transfer = passes * steps / n * bytes / nvlink_bus(cluster);
  }
  if (group.domains > 1)
    transfer = std::max(
        transfer, passes * (n - 1) / n * bytes / (group.network_bandwidth * group.per_domain));
  return transfer;
}

bool ring_serves(Collective op, const GroupPlacement&) {
  return op == Collective::all_reduce || op == Collective::all_gather ||
         op == Collective::reduce_scatter;
}

CollectiveCost ring_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster) {
  const double n = group.size, k = group.per_domain;
  // A pass crosses each domain boundary but one and makes its other steps over NVLink.
  const Seconds hops = (n - group.domains) * cluster.device.nvlink_latency +
                       (group.domains - 1.0) * group.network_latency;
  CollectiveCost cost;
  cost.latency = start_up(cluster) + passes(op) * hops;
  const Seconds transfer = ring_transfer(passes(op), bytes, group, cluster);
  cost.duration = cost.latency + transfer;
  cost.wire_bytes = passes(op) * (n - 1) / n * bytes;
  if (transfer > Seconds{}) {
    // In each domain one channel in k leaves through a given member's NIC; the others use its
    // NVLink port.
    const BytesPerSecond bus = cost.wire_bytes / transfer;
    const bool inside = group.domains == 1;
    cost.nvlink_rate = inside ? bus : bus * ((k - 1) / k);
    cost.nic_rate = inside ? BytesPerSecond{} : bus / k;
  }
  cost.protocol = "Simple";
  cost.channels = cost.sms = ring_channels(cluster);
  set_memory_rate(op, cost);
  return cost;
}

Plan ring_plan(Collective op, const GroupPlacement& group) {
  const int n = group.size, k = group.per_domain;
  Plan plan;
  plan.channels = group.domains == 1 ? 1 : k;
  plan.chunks = n;
  std::vector<std::vector<int>> ring;  // by channel, the members in ring order
  for (int channel = 0; channel < plan.channels; ++channel) {
    std::vector<int>& order = ring.emplace_back();
    // A domain is entered on the rail on which the one before it was left.
    for (int domain = 0; domain < group.domains; ++domain)
      for (int i = 0; i < k; ++i)
        order.push_back(domain * k + ((channel - domain + i) % k + k) % k);
  }
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
