// What a step's tasks share: links between devices, and each device's memory bandwidth and SMs.
// A regular system has an NVLink port and a NIC share per device, each direction (tiers share
// evenly, see fabric.h); a free-form graph has its own links, each direction.
#pragma once

#include <compare>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/config/cluster.h"
#include "sim/config/faults.h"
#include "sim/engine/task_graph_builder.h"
#include "sim/network/collective.h"

namespace stepsim {

/// Which of them several queues use; what has one user never contends and is left out.
struct SharedKinds {
  bool nvlink = false, network = false;
  bool device = false;  ///< memory bandwidth and SMs: some communication can run beside kernels
};

/// Load of a communication kernel while its bytes move, bytes/s, and the SMs it holds.
struct TransferLoad {
  double nvlink_rate = 0, nic_rate = 0, memory_rate = 0;
  uint32_t sms = 0;
  bool yields = false;  ///< a kernel that starts at the same instant has its blocks placed first
  auto operator<=>(const TransferLoad&) const = default;
};
TransferLoad load_of(const CollectiveCost& cost);

/// When a transfer's SMs are its own.
enum class Held {
  while_running,  ///< from its start
  from_arrival    ///< from the start of its members' arrival tasks, which take them
};

inline constexpr ClaimSetId no_claims{UINT32_MAX};

/// Claims of a task: of a collective's transfer and its arrival, or of a kernel.
struct CollectiveClaims {
  ClaimSetId transfer = no_claims, arrival = no_claims;
};

/// Resources of one step. Equal claims are one set.
class Resources {
 public:
  /// `faults` by simulated device.
  Resources(const Cluster& cluster, std::span<const RankFault> faults, SharedKinds shared,
            TaskGraphBuilder& builder);

  /// A free-form graph's links from one GPU to another; nothing for a regular system, where ports
  /// stand for the network.
  std::vector<ResourceId> route(const Fabric& fabric, int from_gpu, int to_gpu);

  /// A kernel that would read and write memory at that rate; `runner` says how it uses SMs.
  ClaimSetId kernel(uint32_t device, double memory_rate, const ProcessorClaim& runner);
  /// A transfer that loads `out`'s ports outward and `in`'s inward; `route` replaces their NICs.
  ClaimSetId transfer(uint32_t out, uint32_t in, const TransferLoad& load, Held held,
                      std::span<const ResourceId> route);
  /// An arrival of one member, from which on its SMs are held.
  ClaimSetId arrival(uint32_t device, const TransferLoad& load);

 private:
  ClaimSetId set();
  ClaimSetId new_transfer(uint32_t out, uint32_t in, const TransferLoad& load, Held held,
                          std::span<const ResourceId> route);

  const Cluster& cluster_;
  SharedKinds shared_;
  TaskGraphBuilder& builder_;
  std::map<std::pair<std::string, std::string>, ResourceId> by_name_;
  std::vector<Claim> claims_;
  std::vector<ProcessorClaim> processors_;
  /// Every message asks anew.
  std::map<std::tuple<uint32_t, uint32_t, TransferLoad, Held, std::vector<ResourceId>>, ClaimSetId>
      transfers_;
  std::map<std::pair<uint32_t, TransferLoad>, ClaimSetId> arrivals_;
};

}  // namespace stepsim
