// Copies of single modules' saved inputs between the device and its host (Megatron-Core
// pipeline_parallel/fine_grained_activation_offload.py), a layer's groups together: they leave
// behind its forward on one stream; its backward waits for their return, which began under the
// backward of the layer before. No kernel waits for a copy to the host.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/lower/step_writer.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// Bytes that the chunk's `layer`-th layer (from 0) sends to the host. 0 of a layer that is
/// executed again, and of the last one with such modules on a chunk whose backward follows at once:
/// it would come back as it leaves.
double module_offload_bytes(const Scenario& scenario, const StageChunk& chunk, int layer);

/// Writes the copies of one microbatch's passes over a chunk.
class ModuleOffloadWriter {
 public:
  ModuleOffloadWriter(const Scenario& scenario, StepWriter& writer)
      : s_(scenario),
        w_(writer),
        reloads_(writer.device_count(), no_task),
        left_(writer.device_count()) {}

  void after_forward(uint32_t device, const StageChunk& chunk, int layer, Label label);
  void before_backward(uint32_t device, const StageChunk& chunk, int layer, Label label);

 private:
  /// By layer of a chunk: whether it has such modules, and what of them leaves.
  struct Moved {
    std::vector<bool> has;
    std::vector<double> bytes;
  };
  const Moved& moved(const StageChunk& chunk);
  void reload(uint32_t device, const StageChunk& chunk, int layer, Label label);

  const Scenario& s_;
  StepWriter& w_;
  std::map<int, Moved> moved_;   ///< by a chunk's first layer
  std::vector<TaskId> reloads_;  ///< by device: on its way for the next backward
  /// By device: the copies that have left, of each layer and microbatch.
  std::vector<std::map<std::pair<uint16_t, uint16_t>, TaskId>> left_;
};

}  // namespace stepsim
