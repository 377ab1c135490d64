// Model FLOPs of one global batch, Megatron-Bridge's convention (training/utils/flop_utils.py):
// forward and backward, causal attention counted half, no recompute, padded vocabulary counted.
#pragma once

#include "sim/config/scenario.h"

namespace stepsim {

Flops model_flops(const Scenario& scenario);
/// model_flops plus what recompute executes again (GEMMs and attention). `recomputed_layers`: of
/// the whole model, under full recompute.
Flops hardware_flops(const Scenario& scenario, int recomputed_layers);

}  // namespace stepsim
