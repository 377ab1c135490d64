// Bytes of one device: parameters, gradients and optimizer by precision and sharding, activations
// by what the schedule keeps alive, logits of the last stage, gathered-input buffers. Per rank,
// never averaged.
#pragma once

#include <span>

#include "sim/config/scenario.h"
#include "sim/lower/lowered.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// `owned`: parameters whose optimizer state is here; `recompute_bytes`: what one recomputed unit
/// needs on top.
DeviceMemory device_memory(const Scenario& scenario, const StageChunk& last_chunk,
                           int64_t parameters, int64_t owned, std::span<const MemoryEvent> events,
                           double recompute_bytes);

}  // namespace stepsim
