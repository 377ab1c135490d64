// What of the parameters one pipeline rank holds, chunk by chunk: buckets, and what its optimizer
// owns. Dense parameters are sharded over DP x CP, routed experts over the expert-data-parallel
// group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/parallel/bucket.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// Which ranks hold copies of a parameter: DP x CP, or expert DP for routed experts.
enum class ShardGroup : uint8_t { dense, expert };
inline constexpr size_t shard_group_count = 2;
int group_size(const Parallelism& parallel, ShardGroup group);
/// Ranks that share one copy of what is sharded.
int slice_size(const Parallelism& parallel, ShardGroup group);

/// Parameters of one model chunk on one rank. Units of work in a chunk are numbered: 0 the
/// embedding, 1..n the layers, n+1 the head.
struct ChunkShard {
  std::vector<Bucket> buckets, expert_buckets;
  int64_t elements = 0;                   ///< padded, all dense buckets
  int64_t expert_elements = 0;            ///< padded, all expert buckets
  int64_t frozen = 0, expert_frozen = 0;  ///< held beside them, without gradients
  int64_t owned = 0;                      ///< of both, what this rank's optimizer owns
  double parameter_bytes = 0, expert_parameter_bytes = 0;  ///< of what is trained, as gathered
  int head_owner = 0;      ///< the head's unit number; 0 when it is elsewhere
  int64_t replicated = 0;  ///< elements whose gradients are summed over TP at the end
  const std::vector<Bucket>& of(ShardGroup group) const {
    return group == ShardGroup::dense ? buckets : expert_buckets;
  }
};

/// Ranks that share out the optimizer's state of a parameter.
int optimizer_ranks(const Scenario& scenario, ShardGroup group);

/// What one device holds of its chunks, elements. With FSDP parameters and gradients may be shards;
/// `gathered_bytes` is then the most that is alive of whole units beside them.
struct HeldShards {
  double parameters = 0, gradients = 0, owned = 0;
  double gathered_bytes = 0;
};
HeldShards held_shards(const Scenario& scenario, std::span<const ChunkShard> chunks);

/// The chunks of pipeline rank `stage`.
std::vector<ChunkShard> chunk_shards(const Scenario& scenario, const std::vector<StageChunk>& split,
                                     int stage);

}  // namespace stepsim
