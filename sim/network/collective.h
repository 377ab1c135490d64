// Time of one collective over the route its group really has: latency steps plus bytes over
// bandwidth.
//
// NCCL's choices are those of its tuning model: the fastest algorithm and protocol that serve,
// within what the environment allows (sim/network/nccl.h).
//
// Ring over n ranks with B the bus bandwidth (nccl-tests convention, NCCL src/graph/tuning.cc):
//   all-gather, reduce-scatter: (n-1) steps, (n-1)/n * bytes / B;  all-reduce: both.
// A group that spans domains moves at min(NVLink, members per domain * NIC): each member's NIC
// carries a channel. Law: no algorithm beats its byte lower bound; `bytes` is the whole buffer (AG
// output, RS input, AR buffer, what one member sends in an all-to-all). Algorithms are rows of one
// table, one small file each: sim/network/algorithm.h.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sim/config/faults.h"
#include "sim/network/fabric.h"

namespace stepsim {

/// send_recv is a pair over NCCL channels; peer_copy a neighbour's buffer written directly
/// (Transformer Engine userbuffers), at the full port and without a start-up.
enum class Collective {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  send_recv,
  peer_copy
};

/// Where the members of one group sit. Regular groups: every spanned domain holds `per_domain`
/// members.
struct GroupPlacement {
  int size = 1;
  int per_domain = 1;  ///< members in one NVLink domain
  int domains = 1;     ///< NVLink domains spanned
  BytesPerSecond
      network_bandwidth;     ///< one member's share between domains (route, oversubscription)
  Seconds network_latency;   ///< one hop between domains
  double nvlink_factor = 1;  ///< usable share of NVLink at the slowest member
};

/// Placement of a group given as global ranks (rank r sits on GPU r).
GroupPlacement place(std::span<const int> gpus, const Fabric& fabric);

/// `group` at the pace that the faultiest NVLink and NIC of its members leave it. A free-form
/// graph's links have their faults already.
GroupPlacement slowest_member(GroupPlacement group, std::span<const int> ranks,
                              const Faults& faults, const Cluster& cluster);

/// Whom `gpu` sends to in the next domain of its group's ring; -1: nobody.
int next_over_network(std::span<const int> gpus, int gpu, const Fabric& fabric);
/// Sizes of the blocks of consecutive GPUs that share a NIC, an NVLink domain, a node or a switch:
/// groups that lie alike in all of them cost alike. A free-form graph has none.
std::vector<int> sharing_units(const Cluster& cluster);
/// Each NIC serves equally many GPUs. Otherwise GPUs that share one are no blocks of one size, and
/// nothing smaller than a node lies alike.
bool nics_divide_nodes(const Cluster& cluster);
/// Everything that the cost of a group depends on: groups of equal keys cost alike.
std::vector<double> placement_key(const GroupPlacement& group);

/// What a collective costs one member, alone on its links.
struct CollectiveCost {
  Seconds latency;   ///< steps before and between bytes
  Seconds duration;  ///< latency + transfer
  BytesPerSecond nvlink_rate,
      nic_rate;  ///< load on the member's NVLink port and NIC (each direction) while moving bytes
  Bytes wire_bytes;  ///< through one member's port and NIC, each direction
  std::string_view algorithm;
  std::string_view protocol;  ///< LL, LL128 or Simple; empty where there is no choice
  int channels = 0;           ///< NCCL channels
  int sms = 0;                ///< its kernel holds on a member, one thread block a channel
  /// Memory traffic on a member while bytes move: twice the rate on its links for copies (sent and
  /// received), three times for reductions (one operand more; NVIDIA/nccl issue 1428).
  BytesPerSecond hbm_rate;
};
CollectiveCost collective_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                               const Cluster& cluster);

}  // namespace stepsim
