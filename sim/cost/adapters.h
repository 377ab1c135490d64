// Low-rank adapters on one rank (Megatron-Bridge peft/utils.py, ParallelLinearAdapter): two thin
// products, in -> rank -> out. Tensor parallelism cuts the rank of a column-parallel module's first
// product and the input of a row-parallel one's; the second is always cut by output.
#pragma once

#include <vector>

#include "sim/config/scenario.h"
#include "sim/cost/layer_sizes.h"
#include "sim/cost/parameters.h"

namespace stepsim {

/// The two products of one adapter.
struct AdapterSizes {
  Gemm in, out;
};
AdapterSizes column_adapter(const Gemm& base, int rank, int tp);
AdapterSizes row_adapter(const Gemm& base, int rank, int tp);

/// Of a layer of this shape, in registration order. Every one is split over TP.
std::vector<ParameterTensor> adapter_parameters(const Scenario& scenario, LayerShape shape);
/// Bytes that they keep for the backward: their own 16-bit inputs, gathered, and what lies between
/// the two products. `mlp`: those of fc1 and fc2 too.
double adapter_activation_bytes(const Scenario& scenario, const LayerSizes& sizes, LayerShape shape,
                                bool mlp);

}  // namespace stepsim
