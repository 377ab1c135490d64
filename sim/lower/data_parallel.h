// Data-parallel work around the pipeline: optimizer, parameter gathers, gradient reductions, norm,
// and when each starts. Megatron-Core distributed_data_parallel.py, param_and_grad_buffer.py,
// distrib_optimizer.py, finalize_model_grads.py:
//   * many buckets exist only on pipeline rank 0, chunk 0; every other chunk is one bucket
//   * gradients are reduced once a step, in the last microbatch's backward
//   * align_grad_reduce: with interleaving a chunk's reduction starts p virtual steps late on rank
//   p; in plain 1F1B
//     only rank 0 reduces from inside its last backward
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "sim/lower/fully_sharded.h"
#include "sim/lower/shard_collectives.h"
#include "sim/lower/step_writer.h"
#include "sim/parallel/schedule.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// One model chunk's parameters on one device, and what has been launched for them.
struct ChunkState {
  ChunkShard shard;
  /// By group and bucket: no_task when nothing is sent.
  std::array<std::vector<std::optional<TaskId>>, shard_group_count> gathers;
  std::array<std::vector<bool>, shard_group_count> reduced;
};

/// Units of work in a chunk are numbered: 0 the embedding, 1..n the layers, n+1 the head.
class DataParallelWriter {
 public:
  DataParallelWriter(const Scenario& scenario, const std::vector<StageChunk>& split,
                     StepWriter& writer, const std::vector<SimulatedDevice>& devices);

  void begin_step(uint32_t device);
  /// Forward virtual step `k` is about to run: launches the gathers that its place in the schedule
  /// releases.
  void before_forward(uint32_t device, int virtual_step);
  /// The next kernel reads the parameters of unit `owner`.
  void need(uint32_t device, int chunk, int owner, Visit visit);
  /// Unit `owner` finished its backward of a microbatch.
  void gradient_ready(uint32_t device, int chunk, int owner, int microbatch);
  /// Backward virtual step `k` has run.
  void after_backward(uint32_t device, int virtual_step);
  void end_step(uint32_t device);

  const ChunkState& chunk(uint32_t device, int c) const {
    return state_[device][static_cast<size_t>(c)];
  }
  HeldShards held(uint32_t device) const;

 private:
  bool gathers() const { return !units_ && s_.data_parallel.distributed_optimizer; }
  bool hooks(uint32_t device) const;
  bool deferred(uint32_t device, int chunk) const;
  void gather(uint32_t device, int chunk);
  void reduce(uint32_t device, int chunk, ShardGroup group, size_t bucket);
  void reduce_rest(uint32_t device, int chunk);
  void optimizer_kernels(uint32_t device, int first_chunk, int last_chunk);
  void synchronise_gradients(uint32_t device);
  static Label label(OpKind op, int chunk, size_t part);

  const Scenario& s_;
  StepWriter& w_;
  ShardCollectives collectives_;
  std::optional<FullyShardedWriter> units_;  ///< FSDP
  const std::vector<SimulatedDevice>& devices_;
  KernelModel kernels(uint32_t device) const { return collectives_.kernels(device); }
  std::vector<VirtualStep> order_;  ///< interleaved virtual steps; empty without virtual stages
  std::vector<std::vector<ChunkState>> state_;
  std::vector<std::vector<TaskId>> reductions_;  ///< by device, to be waited for at the end
};

}  // namespace stepsim
