// Links that transfers share: the resources of a step's graph and what a transfer claims of them.
// A regular system has an NVLink port and a NIC share per device, each direction (tiers share
// evenly, see fabric.h); a free-form graph has its own links, each direction.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/cluster.h"
#include "sim/config/faults.h"
#include "sim/engine/task_graph.h"
#include "sim/network/collective.h"

namespace stepsim {

/// Which kinds of links several queues use; a link with one user never contends and is left out.
struct SharedLinks {
  bool nvlink = false, network = false;
};

/// Resources of one step.
class Links {
 public:
  /// `faults` by simulated device.
  Links(const Cluster& cluster, std::span<const RankFault> faults, SharedLinks shared,
        TaskGraphBuilder& builder);

  /// A free-form graph's links from one GPU to another; nothing for a regular system, where ports
  /// stand for the network.
  std::vector<ResourceId> route(const Fabric& fabric, int from_gpu, int to_gpu);
  /// `task` loads `out`'s ports outward and `in`'s inward; `route` replaces their NICs.
  void claim(TaskId task, uint32_t out, uint32_t in, double latency_seconds, double nvlink_rate,
             double nic_rate, std::span<const ResourceId> route);

 private:
  bool free_form_;
  SharedLinks shared_;
  TaskGraphBuilder& builder_;
  std::map<std::pair<std::string, std::string>, ResourceId> by_name_;
  std::vector<Claim> claims_;
};

}  // namespace stepsim
