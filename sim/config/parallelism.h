// How the work is split over ranks: mesh sizes, batch, pipeline schedule, data-parallel sharding.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/config/schedule_kind.h"

namespace stepsim {

/// One virtual stage of a pipeline layout.
struct LayoutStage {
  int layers = 0, mtp = 0;  ///< decoder layers, prediction modules
  bool embedding = false, loss = false;
  bool operator==(const LayoutStage&) const = default;
};

/// How context-parallel ranks exchange keys and values (cp_comm_type): round a ring, gathered
/// before attention, heads against tokens by all-to-all, or all-to-alls inside and a ring outside.
enum class ContextKind { p2p, all_gather, a2a, a2a_p2p };

/// Sizes and splits of the two meshes over the same ranks. Rank order tp-cp-dp-pp, fastest first.
struct Parallelism {
  int tp = 1, pp = 1, cp = 1, dp = 1;  ///< dp excludes cp
  int cp_inner = 1;                    ///< of CP, neighbours that a2a+p2p exchanges heads among
  std::vector<ContextKind> context{};  ///< of all layers, or one a layer; empty: p2p
  int ep = 1, etp = 1;      ///< experts: ranks that hold different ones, and ranks that share one
  bool experts = false;     ///< the model has experts: their mesh and its groups are in use
  std::optional<int> vp{};  ///< model chunks per pipeline rank; set to 1 differs from unset
  Placement placement = Placement::ring;  ///< of the schedule
  bool vp_from_layout = false;            ///< VP was not given but follows from the layout
  bool pp_before_dp = false;              ///< dist.use_tp_pp_dp_mapping: rank order tp-cp-pp-dp
  bool sequence_parallel = false;
  int optimizer_instances = 1;  ///< num_distributed_optimizer_instances: copies of a sharded state
  int microbatch_group = 0;     ///< microbatch_group_size_per_vp_stage; 0 = pp
  bool account_for_embedding = false, account_for_loss = false;
  std::optional<int> first_stage_layers{}, last_stage_layers{};
  std::vector<LayoutStage> layout{};  ///< by virtual stage; empty: split evenly
  /// At most INT32_MAX: sizes that no cluster has are only ever checked, not laid out.
  int world() const {
    return static_cast<int>(std::min<int64_t>(int64_t{tp} * pp * cp * dp, INT32_MAX));
  }
  /// Ranks that hold the same experts: world / (PP x EP x ETP), at least 1.
  int edp() const {
    return static_cast<int>(std::max<int64_t>(1, world() / (int64_t{pp} * ep * etp)));
  }
  /// Without context parallelism all kinds are one.
  ContextKind context_at(int layer) const {
    if (cp == 1 || context.empty()) return ContextKind::p2p;
    return context[context.size() > 1 ? static_cast<size_t>(layer) : 0];
  }
  int chunks() const { return placement == Placement::ring ? vp.value_or(1) : 2; }
  /// Embedding and output layer are on different ranks.
  bool ends_apart() const { return pp > 1 && placement != Placement::vee; }
  PipelineShape pipeline() const { return {placement, pp, chunks()}; }
};

/// Megatron-FSDP's data_parallel_sharding_strategy: what is sharded, each with those before it.
enum class ShardStrategy { no_shard, optim, optim_grads, optim_grads_params };
/// Who gathers parameters unit by unit, if anyone.
enum class FullySharded { none, megatron, torch };

/// Which of an EP group's members a rank is.
inline int expert_rank(const Parallelism& p, int rank) { return rank / p.etp % p.ep; }

/// Data-parallel gradient reduction and optimizer sharding.
struct DataParallel {
  bool distributed_optimizer = false;
  std::optional<int64_t> bucket_size;  ///< elements, not bytes; unset = one bucket
  bool average_in_collective = false;
  double optimizer_bytes = 12;     ///< per owned parameter: fp32 master weight and two moments
  double adam_bytes = 28;          ///< per owned parameter: p, g, m, v read, p, m, v written
  bool copies_gradients = true;    ///< 16-bit gradients are copied to fp32 before the update
  bool fp32_accumulation = false;  ///< 16-bit gradients are exchanged and summed in fp32
  FullySharded fully_sharded = FullySharded::none;
  ShardStrategy strategy = ShardStrategy::no_shard;
  bool outer_optimizer = false;     ///< outer_dp_sharding_strategy optim: sharded across slices too
  bool double_buffer = false;       ///< fsdp_double_buffer: two units are gathered at a time
  bool registered_buffers = false;  ///< nccl_ub
  bool reshard_after_forward = true;  ///< PyTorch's FSDP2: gathered again for the backward
  bool shards(ShardStrategy what) const {
    return fully_sharded != FullySharded::none && strategy >= what;
  }
};

/// Samples of one step and how they are cut.
struct Batch {
  int64_t global = 1, micro = 1, sequence = 0;
  int64_t microbatches = 1;  ///< global / (micro * dp)
  /// Packed sequences: the sum of all lengths of a global batch and that of their squares; 0: every
  /// sample has `sequence` tokens. Samples are padded to `sequence`, attention alone sees lengths.
  double token_sum = 0, square_sum = 0;

  double tokens() const {
    return token_sum > 0 ? token_sum : static_cast<double>(global) * static_cast<double>(sequence);
  }
  double squares() const {
    return square_sum > 0 ? square_sum : tokens() * static_cast<double>(sequence);
  }
  /// The one length that attention costs as much for as for all of them: the sum of squares over
  /// the sum.
  double length() const {
    return square_sum > 0 ? square_sum / tokens() : static_cast<double>(sequence);
  }
  /// So many sequences of that length in a microbatch.
  double sequences() const {
    return square_sum > 0
               ? static_cast<double>(micro) * (tokens() / static_cast<double>(global)) / length()
               : static_cast<double>(micro);
  }
};

/// How a rank goes through the sends and receives of one exchange when none is batched.
/// `together`: all are posted before any is waited for. The others wait for each before the next:
/// `even_odd` in Megatron-Core's order for ranks of either parity, `fixed` in one order for all.
enum class P2pOrder { together, even_odd, fixed };

}  // namespace stepsim
