// NVLS: the NVSwitch adds up what the members send and multicasts the result, so that a member
// moves 1 + 1/k of an all-reduce each way, not 2 (k-1)/k (NCCL src/transport/nvls.cc). NVLSTree
// joins the domains' switches by double binary trees.
#include <algorithm>
#include <bit>

#include "sim/network/nccl.h"

namespace stepsim {
namespace {

/// Below this many GPUs NCCL's model finds the ring faster: its efficiency of NVLS is 0.85 on
/// Hopper and 0.74 on Blackwell (src/graph/tuning.cc; nccl-tests print Ring for 4 H200 and for 5
/// B200).
int fewest_for_nvls(const Cluster& cluster) {
  return cluster.device.architecture == "blackwell" ? 6 : 5;
}

bool has_nvls(const GroupPlacement& group, const Cluster& cluster) {
  return cluster.nccl.nvls && cluster.device.nvls_efficiency > 0 &&
         group.per_domain >= fewest_for_nvls(cluster);
}

/// NCCL_ALGO names it for this function (a position in nccl_functions).
bool asked_for(size_t function, const Cluster& cluster) {
  return (cluster.nccl.algorithms[function] & name_bit(nccl_algorithms, "nvls")) != 0;
}

/// nccl-tests on 72 GPUs against 8: each member is one more to wait for.
constexpr Seconds wait_per_member = 0.4_us;

Seconds nvls_domain_latency(const GroupPlacement& group, const Cluster& cluster) {
  return cluster.device.nvls_latency + group.per_domain * wait_per_member;
}

/// Network traffic of a tree over NVLS heads runs at this part of a ring's (AWS p5en 4 nodes: 310
/// of 365 GB/s; Together AI B200 4 nodes: 289 of 335); two domains merely exchange (719 of B200's
/// 720).
constexpr double nvls_tree_part = 0.86;
/// NVLS with a NIC behind the heads over NVLS alone (16 H100 against 8: 249 of 274 GB/s).
constexpr double nvls_tree_inside_part = 0.92;

}  // namespace

// All-gather and reduce-scatter only when asked for: there NCCL's model never prefers it.
bool nvls_serves(Collective op, const GroupPlacement& group, const Cluster& cluster) {
  if (group.domains > 1 || !has_nvls(group, cluster)) return false;
  return op == Collective::all_reduce || (op == Collective::all_gather && asked_for(1, cluster)) ||
         (op == Collective::reduce_scatter && asked_for(2, cluster));
}

CollectiveCost nvls_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster, Protocol protocol) {
  const double n = group.size;
  CollectiveCost cost;
  cost.latency = nvls_domain_latency(group, cluster);
  Seconds transfer;
  if (op == Collective::all_reduce) {
    cost.wire_bytes = (n + 1) / n * bytes;
    transfer = nvls_transfer(bytes, group, cluster);
  } else {
    // A ring's rate: 681 against 677 GB/s on 8 B200 (Together AI nccl-tests). A reducing member
    // sends its own part to the switch too.
    cost.wire_bytes = op == Collective::all_gather ? (n - 1) / n * bytes : bytes;
    transfer = std::max(ring_transfer(1, bytes, group, cluster, protocol),
                        cost.wire_bytes / nvlink_bus(cluster));
  }
  cost.duration = cost.latency + transfer;
  if (transfer > Seconds{}) cost.nvlink_rate = cost.wire_bytes / transfer;
  occupy(cost, protocol, allowed_channels(nvls_channels(group, cluster), cluster), 2);
  return cost;
}

Plan nvls_plan(Collective op, const GroupPlacement& group) {
  const int n = group.size, nvswitch = n;
  Plan plan;
  plan.chunks = n;
  plan.nvswitches = true;
  plan.owner.emplace_back();
  for (int chunk = 0; chunk < n; ++chunk) plan.owner[0].push_back(chunk);
  const bool reduces = op != Collective::all_gather, gathers = op != Collective::reduce_scatter;
  for (int chunk = 0; chunk < n && reduces; ++chunk)
    for (int m = 0; m < n; ++m) plan.moves.push_back({0, m, nvswitch, 0, chunk, true});
  for (int chunk = 0; chunk < n && reduces; ++chunk)
    plan.moves.push_back({1, nvswitch, chunk, 0, chunk, false});
  for (int chunk = 0; chunk < n && gathers; ++chunk)
    plan.moves.push_back({2, chunk, nvswitch, 0, chunk, false});
  for (int chunk = 0; chunk < n && gathers; ++chunk)
    for (int m = 0; m < n; ++m)
      if (m != chunk) plan.moves.push_back({3, nvswitch, m, 0, chunk, false});
  return plan;
}

bool nvls_tree_serves(Collective op, const GroupPlacement& group, const Cluster& cluster) {
  return op == Collective::all_reduce && group.domains > 1 && has_nvls(group, cluster);
}

CollectiveCost nvls_tree_cost(Collective, Bytes bytes, const GroupPlacement& group,
                              const Cluster& cluster, Protocol protocol) {
  const double k = group.per_domain;
  const double levels = std::bit_width(static_cast<unsigned>(group.domains)) - 1;
  CollectiveCost cost;
  // Up and down, and half as much again: the heads hand over from the switch to the NIC and back.
  cost.latency = nvls_domain_latency(group, cluster) + 2 * 1.5 * levels * group.network_latency;
  const bool two = group.domains == 2;
  const ChannelShares share = nvls_shares(group, cluster);
  const Bytes network = (two ? 1 : 2) / k * bytes, nvlink = (k + 1) / k * bytes;
  // The switch and the NIC work on different slices at once, but both wait while the switch runs
  // up.
  const Seconds inside = nvls_transfer(bytes, group, cluster) / nvls_tree_inside_part;
  const Seconds steady =
      nvlink / (cluster.device.nvlink_bandwidth *
                (cluster.device.nvls_efficiency * nvls_tree_inside_part * share.nvlink));
  const Seconds between =
      network / (group.network_bandwidth * ((two ? 1 : nvls_tree_part) * share.network));
  const Seconds transfer = std::max(steady, between) + (inside - steady);
  cost.duration = cost.latency + transfer;
  cost.wire_bytes = network + nvlink;
  if (transfer > Seconds{}) {
    cost.nvlink_rate = nvlink / transfer;
    cost.nic_rate = network / transfer;
  }
  occupy(cost, protocol, allowed_channels(nvls_channels(group, cluster), cluster), 2);
  return cost;
}

Plan nvls_tree_plan(Collective, const GroupPlacement& group) {
  const int k = group.per_domain, domains = group.domains, n = group.size;
  int deepest = 0;
  for (int d = 0; d < domains; ++d) deepest = std::max(deepest, tree_depth(0, d, domains));
  Plan plan;
  plan.channels = 2 * k;
  plan.nvswitches = true;
  const int last = 2 + 2 * deepest;
  for (int channel = 0; channel < plan.channels; ++channel) {
    const int tree = channel % 2, rail = channel / 2;
    for (int d = 0; d < domains; ++d) {
      const int head = d * k + rail, nvswitch = n + d;
      for (int m = d * k; m < (d + 1) * k; ++m) {
        plan.moves.push_back({0, m, nvswitch, channel, 0, true});
        if (m != head) plan.moves.push_back({last + 1, nvswitch, m, channel, 0, false});
      }
      plan.moves.push_back({1, nvswitch, head, channel, 0, false});
      plan.moves.push_back({last, head, nvswitch, channel, 0, false});
      const int above = tree_parent(tree, d, domains);
      if (above < 0) continue;
      const int level = tree_depth(tree, d, domains);
      plan.moves.push_back({2 + deepest - level, head, above * k + rail, channel, 0, true});
      plan.moves.push_back({1 + deepest + level, above * k + rail, head, channel, 0, false});
    }
  }
  std::stable_sort(plan.moves.begin(), plan.moves.end(),
                   [](const Move& a, const Move& b) { return a.step < b.step; });
  return plan;
}

}  // namespace stepsim
