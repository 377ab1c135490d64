// The hardware: devices (sim/config/device.h), the NVLink domains they sit in, and the network
// between domains.
#pragma once

#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/config/device.h"
#include "sim/config/nccl.h"

namespace stepsim {

/// What the software on a system makes of its devices; the first profile whose `release` prefixes
/// the asked release.
struct StackProfile {
  std::string name, release;  ///< release "" matches every release
  double clock_factor = 1;    ///< sustained over nominal compute rate in training (power, clocks)
  double attention_factor = 1;
  bool burst = false;        ///< kernels so short and so few that no power limit binds
  double memory_factor = 1;  ///< achieved over clean-count bytes rate in memory-bound kernels
  Seconds launch;            ///< host time to launch one kernel
  Seconds dispatch;  ///< host time of one framework operator around its kernels (Python, autograd)
  Seconds graph_launch;          ///< host time to launch one captured graph
  bool fused_attention = true;   ///< false: scores are materialised (s*s terms in time and memory)
  bool fused_activation = true;  ///< bias, activation and dropout-add fused into one kernel each
  /// A stage's output goes to the next by shares of the tensor ranks, which gather it there.
  bool scattered_messages = false;
  Seconds step_overhead;  ///< host work between steps that nothing hides (data, logging, scalars)
};

/// One switching tier, leaf first.
struct Tier {
  std::string name;
  int radix = 0;                ///< hosts (first tier) or lower switches under one switch
  double oversubscription = 1;  ///< downlink over uplink bandwidth
  Seconds latency;              ///< one switch traversal
};

/// A vertex and a link of a free-form topology; names are the file's own. GPUs are named "gpu0",
/// "gpu1", ...
struct TopologyLink {
  std::string from, to;
  BytesPerSecond bandwidth;  ///< each direction
  Seconds latency;
};

/// A system scaled to a number of nodes.
struct Cluster {
  std::string system, description;
  std::string file, pointer;  ///< where the system is described, for messages
  Device device;
  StackProfile stack;
  NcclSettings nccl;
  int gpus_per_node = 8;
  int nvlink_domain = 8;  ///< consecutive GPUs that share NVLink
  int nics_per_node = 8;
  BytesPerSecond nic_bandwidth;  ///< one direction, one NIC
  double nic_efficiency = 1;     ///< usable fraction in NCCL
  Seconds nic_latency;           ///< one network hop of a collective, end to end, without switches
  std::string fabric;            ///< infiniband, ethernet, efa, omni-path, or "graph"
  bool rail_optimised = true;    ///< NIC i of every node of a unit reaches the same leaf
  std::vector<Tier> tiers;
  std::vector<TopologyLink> links;  ///< free-form topology; empty for a regular one
  int nodes = 1;
  int gpus = 8;            ///< ranks in use; <= nodes * gpus_per_node
  std::vector<int> hosts;  ///< node of each block of gpus_per_node ranks; empty: in order
};

}  // namespace stepsim
