// Walks each device's schedule program and writes its computations and messages.
#pragma once

#include <memory>
#include <vector>

#include "sim/lower/chunk.h"
#include "sim/lower/data_parallel.h"
#include "sim/lower/step_writer.h"
#include "sim/parallel/schedule.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// Writes the forward and backward of every microbatch on one device after another.
class PipelineWriter {
 public:
  /// `data_parallel` may be null (given costs).
  PipelineWriter(const Scenario& scenario, const Mesh& mesh, const Folding& folding,
                 const std::vector<StageChunk>& split, StepWriter& writer,
                 DataParallelWriter* data_parallel);

  /// Appends the device's allocation events (activation bytes of chunks in flight).
  void write(uint32_t device, std::vector<MemoryEvent>& memory);

 private:
  /// Returns its first kernel.
  TaskId forward(uint32_t device, const Action& action);
  /// A whole backward or one of its halves.
  void backward(uint32_t device, const Action& action);
  /// The given times of an action.
  double given_seconds(const Action& action) const;
  TaskId forward_backward(uint32_t device, const Action& forward, const Action& backward);
  void drain_head(uint32_t device, std::vector<MemoryEvent>& memory);
  double expert_load(uint32_t device) const;
  bool head_deferred(const StageChunk& chunk, int microbatch) const;
  void message(uint32_t device, const Action& action);
  const StageChunk& stage_chunk(int chunk) const;

  const Scenario& s_;
  const Mesh& mesh_;
  const Folding& folding_;
  const std::vector<StageChunk>& split_;
  StepWriter& w_;
  DataParallelWriter* dp_;
  ScheduleShape shape_;
  PipelineShape pipeline_;
  RoutingLoad load_;                     ///< empty without experts
  std::vector<Program> programs_;        ///< by pipeline rank
  std::unique_ptr<ChunkWriter> chunks_;  ///< absent with given costs
  uint32_t next_ = 0, previous_ = 0;     ///< pipeline neighbours of the device being written
  int stage_ = 0;
};

}  // namespace stepsim
