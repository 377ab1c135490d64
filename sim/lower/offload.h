// Activations of whole layers that wait in host memory between their forward and their backward.
#pragma once

#include <vector>

#include "sim/lower/step_writer.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// By layer of a chunk of `layers`, the group whose copy to the host must be over behind the
/// layer's forward, or -1: the copies of the first `offloaded` layers are spread over the whole
/// forward (Transformer Engine pytorch/cpu_offload.py, AsyncDoubleBufferGroupOffloadHandler).
std::vector<int> offload_windows(int layers, int offloaded);

/// A copy over the device's host link by a copy engine: no SMs.
CollectiveCost host_copy_cost(const Device& device, Bytes bytes);

/// Copies of one microbatch at a time, ordered as in that handler: a copy to the host begins where
/// the one before had to be over, one layer is in flight; backward mirrors it.
class LayerOffload {
 public:
  LayerOffload(const Scenario& scenario, StepWriter& writer) : s_(scenario), w_(writer) {}

  /// Behind the forward of the chunk's `layer`-th layer (from 0).
  void after_forward(uint32_t device, const StageChunk& chunk, int layer, Label label);
  /// Before its backward.
  void before_backward(uint32_t device, const StageChunk& chunk, int layer, Label label);

 private:
  int window_at(const StageChunk& chunk, int layer);
  void copy(uint32_t device, const StageChunk& chunk, int group, OpKind op, Label label);

  const Scenario& s_;
  StepWriter& w_;
  std::vector<int> windows_;  ///< of the only chunk: offload needs one stage
};

}  // namespace stepsim
