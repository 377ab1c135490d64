// Parameter tensors of one rank: what tensor and expert parallelism leave of each module.
// Shapes after Megatron-Core's modules (transformer/attention.py, multi_latent_attention.py,
// mlp.py, moe/router.py, moe/experts.py, multi_token_prediction.py).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/config/scenario.h"

namespace stepsim {

/// One parameter tensor on one rank.
struct ParameterTensor {
  int64_t elements = 0;
  bool gemm_weight = false;  ///< of a layer's linear module: kept in fp8 where the layer is
  bool replicated = false;   ///< the same on every TP rank, its gradient of this rank's tokens only
                             ///< under sequence parallelism (norms, biases of row-parallel modules)
  bool expert = false;       ///< of a routed expert: reduced over the expert-data-parallel group
};

/// How many ranks share a module.
struct Sharding {
  int tp = 1, ep = 1, etp = 1;
};

/// In registration order inside their module. `layer`: of the whole model (MoE layers differ).
std::vector<ParameterTensor> layer_parameters(const Model& model, int layer, Sharding s);
std::vector<ParameterTensor> embedding_parameters(const Model& model, int tp);
/// Final norm and, when `output_weight`, the output projection.
std::vector<ParameterTensor> head_parameters(const Model& model, int tp, bool output_weight);
/// One prediction module: its norms, the projection 2H -> H and its layers.
std::vector<ParameterTensor> prediction_parameters(const Model& model, Sharding s);

}  // namespace stepsim
