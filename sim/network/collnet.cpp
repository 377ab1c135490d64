// CollNet: each shard of a domain is added up on the member of its rail, and the switches of an
// InfiniBand network with SHARP add up the domains: a NIC sends its shard once and receives the
// result once (NCCL src/transport/coll_net.cc).
#include <algorithm>

#include "sim/network/nccl.h"

namespace stepsim {
namespace {

// nccl-tests with SHARP: Together AI B200 with NDR, 2 to 64 nodes, 526-606 GB/s of bus bandwidth
// where NICs of 47.5 GB/s would give 712-760; 39 us beyond a ring's start (NCCL's own 31 and
// launch).
constexpr double sharp_part = 0.8;
constexpr Seconds sharp_turn = 39.0_us;

}  // namespace

bool collnet_serves(Collective op, const GroupPlacement& group, const Cluster& cluster) {
  return op == Collective::all_reduce && group.domains > 1 && cluster.fabric == "infiniband";
}

CollectiveCost collnet_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                            const Cluster& cluster, Protocol protocol) {
  const double k = group.per_domain;
  CollectiveCost cost;
  cost.latency = start_up(cluster) + sharp_turn + 2 * group.network_latency;
  const ChannelShares share = ring_shares(group, cluster);
  const Bytes network = bytes / k, nvlink = 2 * (k - 1) / k * bytes;
  const Seconds transfer =
      std::max(network / (group.network_bandwidth * (sharp_part * share.network)),
               ramped(nvlink, 2 * cluster.device.nvlink_ramp, nvlink_bus(cluster) * share.nvlink));
  cost.duration = cost.latency + transfer;
  cost.wire_bytes = network + nvlink;
  if (transfer > Seconds{}) {
    cost.nvlink_rate = nvlink / transfer;
    cost.nic_rate = network / transfer;
  }
  occupy(cost, protocol, allowed_channels(ring_channels(group, cluster), cluster), operands(op));
  return cost;
}

Plan collnet_plan(Collective, const GroupPlacement& group) {
  const int k = group.per_domain, n = group.size;
  Plan plan;
  plan.channels = k;
  plan.network_switch = true;
  const auto all = [&](auto&& moves_of) {
    for (int channel = 0; channel < k; ++channel)
      for (int d = 0; d < group.domains; ++d) moves_of(channel, d, d * k + channel);
  };
  const auto others = [&](int step, bool reduce) {
    all([&](int channel, int d, int head) {
      for (int m = d * k; m < (d + 1) * k; ++m)
        if (m != head)
          plan.moves.push_back({step, reduce ? m : head, reduce ? head : m, channel, 0, reduce});
    });
  };
  others(0, true);
  all([&](int channel, int, int head) { plan.moves.push_back({1, head, n, channel, 0, true}); });
  all([&](int channel, int, int head) { plan.moves.push_back({2, n, head, channel, 0, false}); });
  others(3, false);
  return plan;
}

}  // namespace stepsim
