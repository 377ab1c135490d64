// What of the parameters one pipeline rank holds, chunk by chunk: buckets, and what its optimizer
// owns. Dense parameters are sharded over DP x CP, routed experts over the expert-data-parallel
// group.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/parallel/bucket.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// Parameters of one model chunk on one rank. Units of work in a chunk are numbered: 0 the
/// embedding, 1..n the layers, n+1 the head.
struct ChunkShard {
  std::vector<Bucket> buckets, expert_buckets;
  int64_t elements = 0;         ///< padded, all dense buckets
  int64_t expert_elements = 0;  ///< padded, all expert buckets
  int64_t owned = 0;            ///< of both, what this rank's optimizer owns
  double parameter_bytes = 0;   ///< of `elements`, as gathered
  int head_owner = 0;           ///< the head's unit number; 0 when it is elsewhere
  int64_t replicated = 0;       ///< elements whose gradients are summed over TP at the end
};

/// The chunks of pipeline rank `stage`.
std::vector<ChunkShard> chunk_shards(const Scenario& scenario, const std::vector<StageChunk>& split,
                                     int stage);

}  // namespace stepsim
