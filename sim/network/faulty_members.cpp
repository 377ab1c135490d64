#include <algorithm>

#include "sim/network/collective.h"

namespace stepsim {

GroupPlacement slowest_member(GroupPlacement group, std::span<const int> ranks,
                              const Faults& faults, const Cluster& cluster) {
  if (faults.ranks.empty()) return group;
  double nic_factor = 1;
  for (const int rank : ranks) {
    const RankFault fault = faults.of(rank);
    group.nvlink_factor = std::min(group.nvlink_factor, fault.nvlink_factor);
    nic_factor = std::min(nic_factor, fault.nic_factor);
  }
  if (group.domains > 1 && nic_factor < 1) {
    // A sound member sends at nic_bandwidth * nics / GPUs at most (fabric.h): a faulty NIC is one
    // more narrow link of the route.
    const BytesPerSecond share =
        cluster.nic_bandwidth * cluster.nic_efficiency *
        (static_cast<double>(cluster.nics_per_node) / cluster.gpus_per_node);
    group.network_bandwidth = std::min(group.network_bandwidth, share * nic_factor);
  }
  return group;
}

}  // namespace stepsim
