// Direct: every member sends every other its part, pair by pair. An all-to-all is nothing else; of
// the others NCCL makes rings, and NCCL_ALGO=direct asks for this form.
#include <algorithm>

#include "sim/network/nccl.h"

namespace stepsim {
namespace {

/// All-to-all over a ring's rate, on NVLink (nccl-tests: xxrjun H100 356 of 369 GB/s, OCI GB300 667
/// of 720) and on the NIC (xxrjun H100, 4 to 20 ranks: 44.7-49 of 47.5 GB/s).
constexpr double exchange_nvlink_part = 0.97, exchange_nic_part = 0.96;
/// A round over a ring's step (XLA tables, 8 to 72 ranks).
constexpr double exchange_round_part = 0.5;

double direct_passes(Collective op) { return op == Collective::all_reduce ? 2 : 1; }

}  // namespace

bool direct_serves(Collective op, const GroupPlacement&, const Cluster&) {
  return op == Collective::all_to_all || op == Collective::all_reduce ||
         op == Collective::all_gather || op == Collective::reduce_scatter;
}

CollectiveCost direct_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                           const Cluster& cluster, Protocol protocol) {
  const double n = group.size, k = group.per_domain;
  const bool exchange = op == Collective::all_to_all;
  CollectiveCost cost;
  cost.latency =
      start_up(cluster) +
      direct_passes(op) * (exchange_round_part * (n - 1) * cluster.device.nvlink_latency +
                           (group.domains > 1 ? group.network_latency : Seconds{}));
  const int channels = ring_channels(group, cluster);
  const ChannelShares share = ring_shares(group, cluster);
  const Bytes nvlink = direct_passes(op) * (k - 1) / n * bytes;
  const Bytes network = direct_passes(op) * (n - k) / n * bytes;
  // As in a ring, part of the own share is time too: it is copied.
  const double own = k > 1 ? cluster.device.nvlink_own_share : 0;
  Seconds transfer = ramped(
      direct_passes(op) * (k - 1 + own) / n * bytes, direct_passes(op) * cluster.device.nvlink_ramp,
      nvlink_bus(cluster) * (exchange ? exchange_nvlink_part * share.nvlink : share.nvlink));
  if (group.domains > 1)
    transfer = std::max(transfer,
                        network / (group.network_bandwidth *
                                   (exchange ? exchange_nic_part * share.network : share.network)));
  cost.duration = cost.latency + transfer;
  cost.wire_bytes = nvlink + network;
  if (transfer > Seconds{}) {
    cost.nvlink_rate = nvlink / transfer;
    cost.nic_rate = group.domains > 1 ? network / transfer : BytesPerSecond{};
  }
  occupy(cost, protocol, busy_channels(bytes, allowed_channels(channels, cluster), protocol, 1),
         operands(op));
  return cost;
}

Plan direct_plan(Collective op, const GroupPlacement& group) {
  const int n = group.size;
  Plan plan;
  plan.chunks = n;
  plan.owner.emplace_back();
  for (int chunk = 0; chunk < n; ++chunk) plan.owner[0].push_back(chunk);
  int step = 0;
  const auto pass = [&](bool to_owner) {
    for (int round = 1; round < n; ++round, ++step)
      for (int m = 0; m < n; ++m) {
        const int other = (m + round) % n;
        plan.moves.push_back({step, m, other, 0, to_owner ? other : m, to_owner});
      }
  };
  if (op != Collective::all_gather) pass(true);
  if (op == Collective::all_reduce || op == Collective::all_gather) pass(false);
  return plan;
}

}  // namespace stepsim
