// Model FLOPs of one global batch, Megatron-Bridge's convention (training/utils/flop_utils.py):
// forward and backward, causal attention counted half, no recompute, padded vocabulary counted;
// routers, embedding lookups, softmax and norms not, the norms of latents and of MTP excepted.
#pragma once

#include <span>

#include "sim/config/scenario.h"

namespace stepsim {

/// How FLOPs are counted.
struct FlopConvention {
  /// Before Megatron-Bridge 0.5 (releases up to 26.04.01): windows ignored, and only SiLU counted
  /// as gated. GPT-OSS-120B is 27.16 GFLOPs a token then, 32.63 since.
  bool before_0_5 = false;
  /// Low-rank adapters on frozen weights: no weight gradients, two thirds of the GEMMs; attention
  /// of packed sequences as 12 L h times the sum of squared lengths. Holds wherever the scenario
  /// has adapters.
  bool adapters = false;
};

Flops model_flops(const Scenario& scenario, FlopConvention convention = {});
/// model_flops plus what recompute executes again (GEMMs and attention). `recomputed_layers`: how
/// many of the whole model, under full recompute, as the mean layer counts.
Flops hardware_flops(const Scenario& scenario, int recomputed_layers);
/// The same by the layers that are recomputed, of the whole model.
Flops hardware_flops(const Scenario& scenario, std::span<const int> recomputed_layers);

}  // namespace stepsim
