// What it costs to move tokens to the ranks of their experts and back, and how many bytes that is.
//
// Experts are chosen uniformly: a token visits X/B of X experts with probability
//   1 - C(X - X/B, k) / C(X, k),
// so B times that are the distinct ranks (B = EP) or NVLink domains it is sent to. Group-limited
// routing (DeepSeek-V3, arXiv 2412.19437, section 2.1.2) chooses G of g groups of experts first and
// the k experts in those.
//
//   alltoall          k copies, (EP-1)/EP of them to other ranks (megatron/core/transformer/moe/
//                     token_dispatcher.py, MoEAlltoAllTokenDispatcher)
//   allgather         everything to everybody, and a reduce-scatter back
//   deepep, hybridep  one copy a distinct rank; over the network one a distinct domain, forwarded
//                     over NVLink by the GPU that received it (deepseek-ai/DeepEP
//                     csrc/kernels/internode.cu, csrc/hybrid_ep)
// Law: nothing beats its lower bound, a copy for each distinct other rank.
#pragma once

#include "sim/config/dispatch.h"
#include "sim/network/collective.h"

namespace stepsim {

/// The four passes of a layer. A gradient goes the other way: dispatch_backward adds up what
/// dispatch sent, combine_backward sends what combine added up.
enum class DispatchPass { dispatch, combine, dispatch_backward, combine_backward };

/// What one rank of an EP x ETP group has to move.
struct DispatchShape {
  double tokens = 0;         ///< of one rank, after the split by sequence parallelism
  double width = 0;          ///< elements of one token's vector: hidden size, or the latent one
  double element_bytes = 2;  ///< what vectors travel in
  double reduce_bytes = 0;   ///< what sums over ranks travel in (allgather and ETP: the type of the
                             ///< probabilities); 0: element_bytes
  double probability_bytes = 4;
  int experts = 1, top_k = 1;
  int groups = 0, groups_top_k = 0;  ///< group-limited routing; 0: not limited
  int ep = 1, etp = 1;
  /// NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN; 0: as the group lies
  int ranks_per_domain = 0;
};

/// Expected number of distinct blocks, of `blocks` equal ones of consecutive experts, that a token
/// visits.
double distinct_blocks(const DispatchShape& shape, int blocks);

/// Bytes that one rank sends, and receives as many: all ranks are alike.
struct DispatchBytes {
  Bytes nvlink, network;
  Bytes local;         ///< to experts of its own
  double vectors = 0;  ///< token vectors delivered to it, its own too
  Bytes wire() const { return nvlink + network; }
};
/// `group`: EP x ETP ranks, ETP fastest.
DispatchBytes dispatch_bytes(Dispatcher dispatcher, DispatchPass pass, const DispatchShape& shape,
                             const GroupPlacement& group);

/// One pass on `sms` SMs (0: what the dispatcher takes unasked; NCCL's dispatchers choose their
/// own). A group of one costs nothing.
CollectiveCost dispatch_cost(Dispatcher dispatcher, DispatchPass pass, const DispatchShape& shape,
                             const GroupPlacement& group, const Cluster& cluster, int sms = 0);

/// What ranks tell each other before tokens move: alltoall and DeepEP the tokens of each expert,
/// Hybrid-EP the routing map.
CollectiveCost exchange_cost(Dispatcher dispatcher, const DispatchShape& shape,
                             const GroupPlacement& group, const Cluster& cluster);

}  // namespace stepsim
