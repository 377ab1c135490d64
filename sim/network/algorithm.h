// The collective algorithms: one small file each, one row of the table each. collective_cost()
// takes the fastest that serves, in its fastest protocol.
//
// A row prices a collective (`cost`) and spells it out move by move (`moves`), so that a byte
// ledger can check that it delivers every byte and sends no more than it is priced for.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sim/network/collective.h"

namespace stepsim {

/// One chunk sent from member to member (numbers within the group, domain after domain). Moves of
/// one step are concurrent. Behind the members come the switches that add up and multicast: an
/// NVSwitch a domain, then one for the network.
struct Move {
  int step = 0;
  int from = 0, to = 0;
  int channel = 0;
  int chunk = 0;        ///< of `Plan::chunks` equal parts of the channel's share
  bool reduce = false;  ///< added to what the receiver holds; otherwise it replaces it
};

/// A collective spelt out. The buffer is cut into channels, a channel into chunks.
struct Plan {
  int channels = 1, chunks = 1;
  std::vector<Move> moves;  ///< by step
  /// owner[channel][chunk]: the member that contributes it (all-gather), keeps it (reduce-scatter)
  /// or gets it (all-to-all, where `reduce` adds a source); broadcast: the root; else empty.
  std::vector<std::vector<int>> owner;
  bool nvswitches = false, network_switch = false;  ///< vertices behind the members
};

/// NCCL's protocols: flags beside the data in 8 or 128 bytes, or whole slices and a fence.
enum class Protocol { ll, ll128, simple };
inline constexpr int protocol_count = 3;

/// One way to run a collective.
struct Algorithm {
  std::string_view name, description;
  unsigned setting;      ///< bits of its names in NCCL_ALGO; 0: no choice
  bool protocols;        ///< LL and LL128 too, not Simple alone
  bool adds_in_network;  ///< switches reduce: half the bytes of an all-reduce can be saved
  bool (*serves)(Collective, const GroupPlacement&, const Cluster&);
  CollectiveCost (*cost)(Collective, Bytes, const GroupPlacement&, const Cluster&, Protocol);
  Plan (*plan)(Collective, const GroupPlacement&);  ///< regular groups only
};
std::span<const Algorithm> algorithms();

bool ring_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost ring_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster, Protocol protocol);
Plan ring_plan(Collective op, const GroupPlacement& group);
bool tree_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost tree_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster, Protocol protocol);
Plan tree_plan(Collective op, const GroupPlacement& group);
bool nvls_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost nvls_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster, Protocol protocol);
Plan nvls_plan(Collective op, const GroupPlacement& group);
bool nvls_tree_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost nvls_tree_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                              const Cluster& cluster, Protocol protocol);
Plan nvls_tree_plan(Collective op, const GroupPlacement& group);
bool collnet_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost collnet_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                            const Cluster& cluster, Protocol protocol);
Plan collnet_plan(Collective op, const GroupPlacement& group);
bool pat_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost pat_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                        const Cluster& cluster, Protocol protocol);
Plan pat_plan(Collective op, const GroupPlacement& group);
bool direct_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost direct_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                           const Cluster& cluster, Protocol protocol);
Plan direct_plan(Collective op, const GroupPlacement& group);
bool symmetric_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost symmetric_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                              const Cluster& cluster, Protocol protocol);
bool copy_engine_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost copy_engine_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                                const Cluster& cluster, Protocol protocol);
Plan copy_engine_plan(Collective op, const GroupPlacement& group);
Plan symmetric_plan(Collective op, const GroupPlacement& group);
bool pair_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost pair_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster, Protocol protocol);
Plan pair_plan(Collective op, const GroupPlacement& group);
bool copy_serves(Collective op, const GroupPlacement& group, const Cluster& cluster);
CollectiveCost copy_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster, Protocol protocol);

/// The double binary tree over domains: whom `domain` reports to in one of its two trees (-1: it is
/// the root), and how far it is from the root.
int tree_parent(int tree, int domain, int domains);
int tree_depth(int tree, int domain, int domains);

}  // namespace stepsim
