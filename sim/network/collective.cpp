#include "sim/network/collective.h"

#include <array>
#include <cassert>

#include "sim/network/nccl.h"

namespace stepsim {
namespace {

constexpr unsigned bit(std::string_view name) { return name_bit(nccl_algorithms, name); }

constexpr Algorithm table[] = {
    {"ring", "every member passes chunks to the next; bandwidth-optimal, n-1 steps a pass",
     bit("ring"), true, false, ring_serves, ring_cost, ring_plan},
    {"tree", "all-reduce up and down two binary trees of domains; few hops, lower bandwidth",
     bit("tree"), true, false, tree_serves, tree_cost, tree_plan},
    {"nvls", "the NVSwitch adds up and multicasts: 1 + 1/n of the bytes each way", bit("nvls"),
     false, true, nvls_serves, nvls_cost, nvls_plan},
    {"nvls_tree", "NVLS inside the domains, double binary trees between them", bit("nvlstree"),
     false, true, nvls_tree_serves, nvls_tree_cost, nvls_tree_plan},
    {"collnet", "the network's switches add up the domains (SHARP)",
     bit("collnetdirect") | bit("collnetchain"), false, true, collnet_serves, collnet_cost,
     collnet_plan},
    {"pat", "all-gather and reduce-scatter of one rank a node in logarithmic steps", bit("pat"),
     false, false, pat_serves, pat_cost, pat_plan},
    {"direct", "every member sends every other its part, pair by pair: all-to-all", bit("direct"),
     false, false, direct_serves, direct_cost, direct_plan},
    {"symmetric", "kernels over symmetric windows, inside a domain, with few SMs", bit("symmetric"),
     false, true, symmetric_serves, symmetric_cost, symmetric_plan},
    {"copy_engine", "all-gather and all-to-all inside a domain without any SM", 0, false, false,
     copy_engine_serves, copy_engine_cost, copy_engine_plan},
    {"pair", "send and receive between two ranks over NCCL's point-to-point channels", 0, false,
     false, pair_serves, pair_cost, pair_plan},
    {"copy", "a neighbour's buffer written directly over NVLink or the NIC", 0, false, false,
     copy_serves, copy_cost, pair_plan},
};

/// Position of an operation in nccl_functions; -1: no variable speaks of it.
int function_of(Collective op) {
  switch (op) {
    case Collective::all_reduce:
      return 0;
    case Collective::all_gather:
      return 1;
    case Collective::reduce_scatter:
      return 2;
    case Collective::broadcast:
      return 3;
    default:
      return -1;
  }
}

/// What NCCL considers when nobody says: SHARP where it is enabled, PAT, no extension of ours.
unsigned considered(const NcclSettings& nccl) {
  unsigned mask = bit("ring") | bit("tree") | bit("nvls") | bit("nvlstree") | bit("pat");
  if (nccl.collnet) mask |= bit("collnetdirect") | bit("collnetchain");
  return mask;
}

bool better(const CollectiveCost& cost, const CollectiveCost& best) {
  return best.algorithm.empty() || cost.duration < best.duration;
}

/// The fastest of the algorithms and protocols in these masks; no algorithm: none serves.
CollectiveCost fastest(Collective op, Bytes bytes, const GroupPlacement& group,
                       const Cluster& cluster, unsigned algorithms, unsigned protocols) {
  CollectiveCost best;
  for (const Algorithm& algorithm : table) {
    if (algorithm.setting != 0 && (algorithm.setting & algorithms) == 0) continue;
    if (!algorithm.serves(op, group, cluster)) continue;
    for (int p = 0; p < protocol_count; ++p) {
      const auto protocol = static_cast<Protocol>(p);
      if (algorithm.protocols ? (protocols >> p & 1U) == 0 : protocol != Protocol::simple) continue;
      CollectiveCost cost = algorithm.cost(op, bytes, group, cluster, protocol);
      cost.algorithm = algorithm.name;
      // Who asks for no SMs gets none, faster or not.
      if (cost.sms == 0 && cluster.nccl.zero_ctas) return cost;
      if (better(cost, best)) best = cost;
    }
  }
  return best;
}

}  // namespace

std::span<const Algorithm> algorithms() { return table; }

CollectiveCost collective_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                               const Cluster& cluster) {
  assert(bytes >= Bytes{});
  if (group.nvlink_factor < 1) {
    Cluster slower = cluster;
    slower.device.nvlink_bandwidth *= group.nvlink_factor;
    slower.device.nvlink_channel_bandwidth *= group.nvlink_factor;
    slower.device.nvlink_half_message *= group.nvlink_factor;  // starting up takes what it took
    GroupPlacement sound = group;
    sound.nvlink_factor = 1;
    return collective_cost(op, bytes, sound, slower);
  }
  CollectiveCost none;
  none.algorithm = "none";
  if (group.size <= 1) return none;
  const NcclSettings& nccl = cluster.nccl;
  const unsigned every_protocol = (1U << protocol_count) - 1;
  const int function = function_of(op);
  if (function < 0) return fastest(op, bytes, group, cluster, bit("direct"), every_protocol);
  const unsigned asked = nccl.algorithms[static_cast<size_t>(function)];
  const unsigned form = nccl.protocols[static_cast<size_t>(function)];
  const unsigned protocols = form != 0 ? form : every_protocol;
  CollectiveCost best =
      fastest(op, bytes, group, cluster, asked != 0 ? asked : considered(nccl), protocols);
  // Where nothing that was asked for can run it, NCCL falls back on its ring.
  if (best.algorithm.empty()) best = fastest(op, bytes, group, cluster, bit("ring"), protocols);
  assert(!best.algorithm.empty());
  return best;
}

}  // namespace stepsim
