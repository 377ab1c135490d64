// What a precision recipe costs beside its GEMMs: passes that quantise, bytes of quantised tensors.
// Recipes: Transformer Engine common/recipe and pytorch/quantized tensors. Every function speaks of
// tensors of layers that are quantised; the others stay in Precision::parameters.
#pragma once

#include "sim/config/scenario.h"

namespace stepsim {

/// A tensor that is quantised: forward input of a GEMM, gradient of its output, weight.
enum class Operand { input, gradient, weight };

/// Type of a layer's GEMMs. `quantized`: the layer is none of those that stay in 16 bits.
inline Dtype gemm_dtype(const Precision& precision, bool quantized) {
  return quantized ? gemm_dtype(precision) : precision.parameters;
}
/// Bytes that the passes which quantise one element move, in both of the layouts that the three
/// GEMMs of a linear module ask for. 0 without a recipe. `frozen`: there is no weight gradient, and
/// inputs and gradients are written in one layout only.
double quantize_bytes(const Precision& precision, Operand operand, bool frozen = false);
/// Type of core attention in a quantised layer on `device`: fused attention in FP8 takes per-tensor
/// scales, those of the moment on Blackwell only, or MXFP8 there (Transformer Engine PR 2012,
/// 2719).
Dtype attention_dtype(const Precision& precision, const Device& device);
/// Bytes of the passes that quantise one element of what core attention takes; 0 in 16 bits.
double attention_cast_bytes(const Precision& precision, const Device& device);
/// One quantised element with its share of the scales: a saved input of a GEMM, one layout of a
/// weight, an element of a gather between tensor-parallel ranks.
double operand_bytes(const Precision& precision);
/// One weight of a GEMM as data-parallel ranks gather it.
double gathered_weight_bytes(const Precision& precision);
/// Weights are quantised once a step on every rank, because they are gathered or kept in 16 bits.
bool casts_weights(const Precision& precision);
/// One weight of a GEMM on its rank: both layouts, and the 16 bits beside them unless it is
/// gathered quantised.
double weight_bytes(const Precision& precision);

}  // namespace stepsim
