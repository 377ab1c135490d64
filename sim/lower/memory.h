// Bytes of one device: parameters, gradients and optimizer by precision and sharding, activations
// by what the schedule keeps alive, logits of every microbatch in flight, gathered-input buffers.
// Per rank, never averaged.
#pragma once

#include <span>

#include "sim/config/scenario.h"
#include "sim/lower/lowered.h"
#include "sim/lower/shards.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// What one microbatch of a chunk keeps from its forward to its backward.
struct Kept {
  double activations = 0, logits = 0;  ///< bytes
  double input_half = 0;  ///< of the activations, freed by the first half of a split backward
};
Kept kept_by(const Scenario& scenario, const StageChunk& chunk);
/// Share of the activations that the weight half of a backward needs: the given one, else the
/// model's.
double weight_memory(const Scenario& scenario);
/// The head's input and output gradient of one microbatch, kept when its weight gradient is
/// deferred.
double deferred_head_bytes(const Scenario& scenario);
/// The output projection's weight gradient of this microbatch waits for the drain.
bool head_deferred(const Scenario& scenario, int microbatch);
/// Decoder layer `layer` of the model is quantised to fp8.
bool quantised(const Scenario& scenario, int layer);
/// The forward of the chunk's i-th layer runs again before its backward.
bool recomputed(const Scenario& scenario, int layer_in_chunk);

/// `chunks`: this device's, and what is held of them; `events`: in schedule order.
DeviceMemory device_memory(const Scenario& scenario, std::span<const StageChunk> chunks,
                           const HeldShards& held, std::span<const MemoryEvent> events);

}  // namespace stepsim
