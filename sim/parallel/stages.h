// Which decoder layers each model chunk of each pipeline rank holds.
// Even split: chunk c on rank p starts at c*(L/VP) + p*(L/(P*VP)) (Megatron-Core
// transformer_layer.py); account_for_embedding / account_for_loss count those as one layer;
// first/last stage layer counts as given.
#pragma once

#include <vector>

#include "sim/config/scenario.h"

namespace stepsim {

/// Layers [first, first + count) with the embedding before and the head after when they are here.
struct StageChunk {
  int first_layer = 0, layer_count = 0;
  bool embedding = false, head = false;
  int mtp = 0;  ///< prediction modules
};

/// Indexed by place, chunk * pp + rank, wherever a schedule places the stages. The split must be
/// valid (checked when the scenario was read). Without a layout the `mtp` prediction modules are on
/// the last stage.
std::vector<StageChunk> split_layers(const Parallelism& parallel, int layers, int mtp = 0);

}  // namespace stepsim
