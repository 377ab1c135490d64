// The collective algorithms: one small file each, one row of the table each. collective_cost()
// takes the fastest that serves.
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
/// one step are concurrent.
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
  /// owner[channel][chunk]: the member that contributes it (all-gather) or keeps it
  /// (reduce-scatter); else empty.
  std::vector<std::vector<int>> owner;
};

/// One way to run a collective.
struct Algorithm {
  std::string_view name, description;
  bool (*serves)(Collective, const GroupPlacement&);
  CollectiveCost (*cost)(Collective, Bytes, const GroupPlacement&, const Cluster&);
  Plan (*plan)(Collective, const GroupPlacement&);  ///< regular groups only
};
std::span<const Algorithm> algorithms();

bool ring_serves(Collective op, const GroupPlacement& group);
CollectiveCost ring_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster);
Plan ring_plan(Collective op, const GroupPlacement& group);

bool tree_serves(Collective op, const GroupPlacement& group);
CollectiveCost tree_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster);
Plan tree_plan(Collective op, const GroupPlacement& group);

bool pair_serves(Collective op, const GroupPlacement& group);
CollectiveCost pair_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster);
bool copy_serves(Collective op, const GroupPlacement& group);
CollectiveCost copy_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster);
Plan pair_plan(Collective op, const GroupPlacement& group);

/// NVLink bus bandwidth of a ring, and what starting a collective kernel costs (an idle start,
/// whatever the bytes).
BytesPerSecond nvlink_bus(const Cluster& cluster);
Seconds start_up(const Cluster& cluster);
/// Channels of rings and trees, each of one thread block: 24 on 8 A100 and H100, 16 on 8 B200 (NCCL
/// src/graph/search.cc, connect.cc: rings doubled; Blackwell's links are faster and need fewer).
int ring_channels(const Cluster& cluster);
/// Sets hbm_rate, once the rates on the links are known.
void set_memory_rate(Collective op, CollectiveCost& cost);
/// Time of the bytes of `passes` ring passes, without latency.
Seconds ring_transfer(int passes, Bytes bytes, const GroupPlacement& group, const Cluster& cluster);

}  // namespace stepsim
