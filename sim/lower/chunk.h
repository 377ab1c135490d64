// Stamps one model chunk's forward or backward of one microbatch: embedding, decoder layers, head.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "sim/lower/data_parallel.h"
#include "sim/lower/layer.h"
#include "sim/lower/module_offload.h"
#include "sim/lower/offload.h"
#include "sim/lower/step_writer.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// A chunk of the device that is being written: which layers, and its number on the device.
struct DeviceChunk {
  const StageChunk& layers;
  int number = 0;
};

/// Holds the templates of one device at a time; they must outlive the graph's writing, so each
/// device's are kept.
class ChunkWriter {
 public:
  /// `halves`: backwards are written in two parts.
  ChunkWriter(const Scenario& scenario, StepWriter& writer, DataParallelWriter& data_parallel,
              bool halves);

  /// What follows is written on `device`; `expert_load`: tokens of its experts over the mean.
  void begin(uint32_t device, double expert_load);
  /// Returns its first kernel.
  TaskId forward(DeviceChunk chunk, int microbatch);
  /// `input_only`: without its weight gradients, which `backward_weight` makes later.
  void backward(DeviceChunk chunk, int microbatch, bool input_only = false);
  void backward_weight(DeviceChunk chunk, int microbatch);
  /// One microbatch's forward and another's backward, layer by layer (LayerTemplates::layer_pair).
  TaskId forward_backward(DeviceChunk forward, int forward_microbatch, DeviceChunk backward,
                          int backward_microbatch);
  /// The output projection's deferred weight gradient of one microbatch.
  void head_weight_gradient(DeviceChunk chunk, int microbatch);

 private:
  /// Templates of one kind of layer.
  struct LayerSet {
    Template forward[2];   ///< later microbatches, the first
    Template backward[2];  ///< plain, with the whole forward again
    Template backward_input[2], backward_weight[2];
  };
  /// Forward, backward, and whether the forward casts weights.
  using PairKind = std::tuple<LayerKind, LayerKind, bool>;
  struct Templates {
    std::map<LayerKind, LayerSet> layers;
    std::map<PairKind, Template> pairs;
    LayerSet prediction;  ///< of one depth
    Template embedding_forward, embedding_backward, head_forward;
    Template head_backward[2];  ///< with its weight gradient, and without
    Template head_weight_gradient;
  };
  void reserve();
  const Template& pair(int forward_layer, bool first, int backward_layer);
  /// The whole of one direction is a list of units of work; these stamp one.
  void forward_unit(DeviceChunk chunk, int microbatch, int owner, TaskId& first);
  void backward_unit(DeviceChunk chunk, int microbatch, int owner, bool input_only);
  void predictions_forward(DeviceChunk chunk, int microbatch, TaskId& first);
  void predictions_backward(DeviceChunk chunk, int microbatch);
  bool is_first(DeviceChunk chunk, int microbatch) const;
  int place(DeviceChunk chunk, int microbatch) const;
  void need(DeviceChunk chunk, Visit visit, int owner);
  void ready(DeviceChunk chunk, int microbatch, int owner);
  const LayerSet& set(int layer) const { return *of_layer_[static_cast<size_t>(layer)]; }

  const Scenario& s_;
  StepWriter& w_;
  DataParallelWriter& dp_;
  LayerOffload offload_;
  ModuleOffloadWriter module_offload_;
  std::vector<std::unique_ptr<Templates>> templates_;  ///< by device
  Templates* now_ = nullptr;
  std::unique_ptr<LayerTemplates> make_;   ///< of the device being written
  std::vector<const LayerSet*> of_layer_;  ///< of the device being written
  uint32_t device_ = 0;
  bool halves_ = false;
};

/// The start of every label of one pass over a chunk.
Label pass_label(Pass pass, int chunk, int microbatch);

}  // namespace stepsim
