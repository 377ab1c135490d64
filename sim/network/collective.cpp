#include "sim/network/collective.h"

#include <cassert>

#include "sim/network/algorithm.h"

namespace stepsim {
namespace {

constexpr Algorithm table[] = {
    {"ring", "every member passes chunks to the next; bandwidth-optimal, n-1 steps a pass",
     ring_serves, ring_cost, ring_plan},
    {"tree", "all-reduce up and down two binary trees of domains; few hops, lower bandwidth",
     tree_serves, tree_cost, tree_plan},
    {"pair", "send and receive between two ranks over NCCL's point-to-point channels", pair_serves,
     pair_cost, pair_plan},
    {"copy", "a neighbour's buffer written directly over NVLink or the NIC", copy_serves, copy_cost,
     pair_plan},
};

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
  CollectiveCost best;
  best.algorithm = "none";
  if (group.size <= 1) return best;
  bool found = false;
  for (const Algorithm& algorithm : table) {
    if (!algorithm.serves(op, group)) continue;
    CollectiveCost cost = algorithm.cost(op, bytes, group, cluster);
    if (found && cost.duration >= best.duration) continue;
    cost.algorithm = algorithm.name;
    best = cost;
    found = true;
  }
  assert(found);
  return best;
}

}  // namespace stepsim
