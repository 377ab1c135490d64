#include "sim/cost/kernel.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stepsim {

namespace {
/// Smaller tiles fill the last wave better and run slower (less reuse of each operand).
struct TileShape {
  double m_factor, n_factor, rate;
};
constexpr std::array<TileShape, 3> tile_shapes{{{1, 1, 1.0}, {1, 0.5, 0.93}, {0.5, 0.5, 0.80}}};

/// Attention backward recomputes the scores: five matrix products against two (Dao,
/// FlashAttention-2).
constexpr double backward_flop_factor = 2.5;

/// Bytes per score element of attention that materialises its scores in 16 bit, beside what its
/// matrix products read and write: forward softmax (read, write) and dropout (read, write, mask);
/// backward dropout (read, mask, write) and softmax (read two, write).
constexpr double unfused_forward_bytes = 9, unfused_backward_bytes = 11;
}  // namespace

double wave_efficiency(const Gemm& gemm, int tile_m, int tile_n, int sms) {
  double best = 0;
  for (const TileShape& t : tile_shapes) {
    const double tm = tile_m * t.m_factor, tn = tile_n * t.n_factor;
    const double tiles = std::ceil(gemm.m / tm) * std::ceil(gemm.n / tn) * gemm.batch;
    const double waves = std::ceil(tiles / sms);
    const double useful = gemm.m * gemm.n * gemm.batch / (waves * sms * tm * tn);
    best = std::max(best, useful * t.rate);
  }
  return best;
}

Seconds KernelModel::gemm(const Gemm& gemm, Dtype dtype, int sms) const {
  const GemmCurve& curve = device_.gemm[static_cast<size_t>(dtype)];
  const int all = device_.sms, used = sms > 0 ? std::min(sms, all) : all;
  const double rate = curve.peak.value * stack_.clock_factor * curve.ceiling *
                      (gemm.k / (gemm.k + curve.half_k)) *
                      wave_efficiency(gemm, device_.tile_m, device_.tile_n, used) * used / all;
  // Operands are read and the result written once; fp8 results are 16 bit.
  const double in = bytes_per_element(dtype), out = std::max(in, 2.0);
  const Bytes moved{gemm.batch * (in * gemm.k * (gemm.m + gemm.n) + out * gemm.m * gemm.n)};
  return slowdown_ * (std::max(Seconds{gemm.flops().value / rate},
                               moved / (device_.memory_bandwidth * device_.memory_efficiency)) +
                      device_.kernel_gap);
}

double KernelModel::attention_rate(const Attention& a, FlopsPerSecond asymptote) const {
  const double ramp = a.queries / (a.queries + device_.attention.half_sequence);
  const double dim = a.head_dim <= 64 ? device_.attention.head_dim_64_factor : 1;
  return asymptote.value * stack_.clock_factor * stack_.attention_factor * ramp * dim;
}

Seconds KernelModel::unfused_attention(const Attention& a, bool backward) const {
  // Every score is computed, masked or not: two batched products forward, four backward.
  const double batch = a.batch * a.heads;
  const Gemm scores{a.queries, a.keys, a.head_dim, batch},
      values{a.queries, a.head_dim, a.keys, batch};
  const Seconds products = gemm(scores, a.dtype) + gemm(values, a.dtype);
  const double elements = batch * a.queries * a.keys;
  return backward ? products * 2 + streaming({elements * unfused_backward_bytes})
                  : products + streaming({elements * unfused_forward_bytes});
}

Seconds KernelModel::attention_forward(const Attention& a) const {
  if (!stack_.fused_attention) return unfused_attention(a, false);
  return slowdown_ *
         (Seconds{a.forward_flops().value / attention_rate(a, device_.attention.forward)} +
          device_.kernel_gap);
}

Seconds KernelModel::attention_backward(const Attention& a) const {
  if (!stack_.fused_attention) return unfused_attention(a, true);
  return slowdown_ * (Seconds{a.forward_flops().value * backward_flop_factor /
                              attention_rate(a, device_.attention.backward)} +
                      device_.kernel_gap);
}

Seconds KernelModel::traffic(Bytes bytes) const {
  return slowdown_ *
         (bytes / (device_.memory_bandwidth * (device_.memory_efficiency * stack_.memory_factor)));
}

Seconds KernelModel::streaming(Bytes bytes) const {
  return traffic(bytes) + slowdown_ * device_.kernel_gap;
}

}  // namespace stepsim
