// Parameters that are gathered unit by unit: Megatron-FSDP (megatron/core/distributed/fsdp/src/
// megatron_fsdp/megatron_fsdp.py) and PyTorch's FSDP2 (torch/distributed/fsdp/_fully_shard).
// A unit is a decoder layer; the embedding and the head belong to the root, which is not freed
// after its forward: Megatron-FSDP keeps it all step, FSDP2 frees it with its backward.
//   * optim_grads_params: a unit is gathered for every forward and every backward of a microbatch
//   * optim_grads: gradients are reduced in every microbatch, parameters gathered once a step
//   * gathers run ahead of their unit, in the order of the pass; both kinds of a group's
//     collectives share a communicator, which runs them as they are issued
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "sim/lower/shard_collectives.h"

namespace stepsim {

/// One pass over one microbatch.
struct Visit {
  bool forward = true;
  int microbatch = 0;
};

/// One unit of one chunk on one device.
struct ShardedUnit {
  int owner = 0;
  bool root = false;
  std::array<double, shard_group_count> elements{}, frozen{}, bytes{};
  std::array<std::optional<TaskId>, shard_group_count> gathered{};  ///< and not freed
  bool reduced = false;  ///< for the last time in this step
  double size() const { return elements[0] + elements[1] + frozen[0] + frozen[1]; }
};
/// The units of a chunk in forward order.
std::vector<ShardedUnit> sharded_units(const ChunkShard& shard);

/// How far gathers run ahead: until this many elements, and at most so many units, the one that is
/// needed included; and how much may wait to be reduced.
struct ShardWindow {
  double elements = 0;
  int units = 0;
  double waiting_elements = 0;
  size_t waiting_units = 0;
};
ShardWindow shard_window(const Scenario& scenario, const std::vector<ShardedUnit>& units);

/// Gathers and reductions of units as the passes reach them.
class FullyShardedWriter {
 public:
  FullyShardedWriter(const Scenario& scenario, StepWriter& writer, ShardCollectives& collectives);
  void add_chunk(uint32_t device, const ChunkShard& shard);

  void need(uint32_t device, int chunk, int owner, Visit visit);
  void gradient_ready(uint32_t device, int chunk, int owner, int microbatch);
  /// Reduces what no backward has reduced, and waits for all reductions.
  void finish(uint32_t device);

 private:
  struct Chunk {
    std::vector<ShardedUnit> units;
    ShardWindow window;
  };
  struct Waiting {
    TaskId task;
    double elements;
  };
  void gather(uint32_t device, int chunk, ShardedUnit& unit, Visit visit);
  void reduce(uint32_t device, int chunk, ShardedUnit& unit, int microbatch);
  Label label(int chunk, const ShardedUnit& unit, Visit visit) const;

  const Scenario& s_;
  StepWriter& w_;
  ShardCollectives& collectives_;
  std::vector<std::vector<Chunk>> chunks_;                                   ///< by device
  std::vector<std::array<std::deque<Waiting>, shard_group_count>> waiting_;  ///< by device
};

}  // namespace stepsim
