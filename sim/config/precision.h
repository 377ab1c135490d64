// Types that a step computes and stores in.
#pragma once

#include <string>

#include "sim/config/cluster.h"

namespace stepsim {

/// How tensors are scaled to 8 or 4 bits.
enum class Fp8Recipe { none, delayed, current, blockwise, mxfp8, nvfp4 };
/// Compute and storage types.
struct Precision {
  std::string recipe = "bf16_mixed";
  Dtype parameters = Dtype::bf16;  ///< compute type of everything that is not quantised
  Fp8Recipe fp8 = Fp8Recipe::none;
  bool fp8_param_gather = false;
  bool fp8_attention = false;  ///< core attention of quantised layers in 8 bits, where it can be
  int bf16_first_layers = 0, bf16_last_layers = 0;  ///< of the model, kept out of fp8
  bool grad_reduce_in_fp32 = true;
  /// Of one gradient element, accumulated and reduced.
  double gradient_bytes() const { return grad_reduce_in_fp32 ? 4 : 2; }
};

/// Type in which the GEMMs of quantised layers run; that of the parameters without a recipe.
Dtype gemm_dtype(const Precision& precision);

}  // namespace stepsim
