// What every pipeline rank holds, without simulating: parameters in buckets, and memory by the
// exact order of its schedule. The same figures as a simulated step's.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/lower/lowered.h"
#include "sim/lower/shards.h"

namespace stepsim {

/// One pipeline rank; all ranks of a stage hold the same.
struct StageInventory {
  int rank = 0;  ///< the stage's first
  std::vector<ChunkShard> chunks;
  DeviceMemory memory;
  int most_in_flight = 0;  ///< microbatch-chunks whose activations are alive at once
  int64_t parameters() const;
};
std::vector<StageInventory> inventory(const Scenario& scenario);
/// Buckets as they are reported: dense ones, by stage and chunk.
std::vector<BucketRow> bucket_rows(const Scenario& scenario,
                                   const std::vector<StageInventory>& stages);

/// The guides' rule of thumb for 16-bit training, bytes: 2 a parameter, 2 its gradient, 4 Adam's
/// two moments, activations 18 s b h L (Megatron-Bridge, parallelism strategy guide). Per GPU all
/// of it is divided by TP x PP.
struct RuleOfThumb {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0;
  double total() const { return parameters + gradients + optimizer + activations; }
  RuleOfThumb per_gpu(int tp, int pp) const;
};
RuleOfThumb rule_of_thumb(double parameters, const Model& model, const Batch& batch);

}  // namespace stepsim
