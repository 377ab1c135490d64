// Time of one kernel at full speed: the larger of its arithmetic and its bytes over what the device
// sustains.
//
// GEMM:      max(flops / (peak * clock * ceiling * K/(K + half_k) * wave efficiency),
//                bytes of A, B and C once / (memory bandwidth * sustained fraction))
// attention: causal flops / (rate * s/(s + half_sequence)); backward has its own rate and 2.5 times
// the flops streaming: bytes / (memory bandwidth * sustained fraction * stack factor) Wave
// efficiency: output tiles come in whole waves of one tile an SM (NVIDIA, Matrix Multiplication
// Background).
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
  /// Both matrix products of the forward pass, mask respected.
  Flops forward_flops() const { return {4 * batch * heads * queries * keys * visible * head_dim}; }
};

/// Arithmetic and memory time of kernels on one device under one software stack.
class KernelModel {
 public:
  /// `slowdown`: every kernel takes so many times as long (a faulty or throttled device).
  KernelModel(const Device& device, const StackProfile& stack, double slowdown = 1)
      : device_(device), stack_(stack), slowdown_(slowdown) {}

  /// `sms`: SMs the GEMM may use, 0 = all.
  Seconds gemm(const Gemm& gemm, Dtype dtype, int sms = 0) const;
  Seconds attention_forward(const Attention& a) const;
  Seconds attention_backward(const Attention& a) const;
  /// A kernel that only moves bytes.
  Seconds streaming(Bytes bytes) const;
  /// Bytes that ride in another kernel's epilogue: no launch, no fill.
  Seconds traffic(Bytes bytes) const;

 private:
  double attention_rate(const Attention& a, FlopsPerSecond asymptote) const;
  Seconds unfused_attention(const Attention& a, bool backward) const;
  const Device& device_;
  const StackProfile& stack_;
  double slowdown_;
};

/// Share of full waves that a grid of output tiles fills, for the best of the library's tile
/// shapes; in (0, 1].
double wave_efficiency(const Gemm& gemm, int tile_m, int tile_n, int sms);

}  // namespace stepsim
