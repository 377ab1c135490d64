// What kernels work on: the sizes of matrix products, attention and scans, and the arithmetic in
// them. Their times: sim/cost/kernel.h.
#pragma once

#include "sim/config/cluster.h"

namespace stepsim {

/// C[m,n] += A[m,k] B[k,n]; `batch` independent ones.
struct Gemm {
  double m = 0, n = 0, k = 0, batch = 1;
  Flops flops() const { return {2 * m * n * k * batch}; }
};

/// One attention call over `batch * heads` independent heads.
struct Attention {
  double batch = 1, heads = 1, head_dim = 128;
  double queries = 0, keys = 0;
  double visible = 0.5;  ///< share of the queries x keys square that the mask leaves
  Dtype dtype = Dtype::bf16;
  double value_dim = 0;  ///< of values and outputs; 0: head_dim
  double window = 0;     ///< keys that a query sees at most, of a sliding window; 0: no window

  double values() const { return value_dim > 0 ? value_dim : head_dim; }
  /// Both matrix products of the forward pass, mask respected.
  Flops forward_flops() const { return products(1, 1); }
  /// Scores again, dV, dP, dQ, dK (Dao, FlashAttention-2): three products of the width of keys, two
  /// of that of values.
  Flops backward_flops() const { return products(3, 2); }

 private:
  Flops products(double of_keys, double of_values) const {
    return {2 * batch * heads * queries * keys * visible *
            (of_keys * head_dim + of_values * values())};
  }
};
/// Causal attention of `queries` of a sequence of `keys` tokens, through a window of `window` keys
/// (0: none): W - W(W-1)/(2s) keys a query in the mean.
Attention causal_attention(double batch, double heads, double head_dim, double queries, double keys,
                           Dtype dtype, double window = 0, double value_dim = 0);

/// A recurrence that keeps `state` numbers for each channel: Mamba-2, gated delta net.
struct StateScan {
  double tokens = 0, channels = 0, state = 0;
  /// Decay, outer product, sum and readout (Megatron-Bridge training/utils/flop_utils.py).
  Flops forward_flops() const { return {7 * tokens * channels * state}; }
};

/// GEMMs of experts that Transformer Engine keeps in flight, one a stream
/// (common/gemm/cublaslt_gemm.cu, multi-stream grouped GEMM).
inline constexpr int expert_streams = 4;
/// Rows of an expert after padding to what its GEMM asks for (Megatron-Core moe_utils.py: 16 in
/// fp8, 32 in block-scaled types).
double padded_rows(double rows, Dtype dtype);

}  // namespace stepsim
