// Time of one kernel at full speed: the larger of its arithmetic and its bytes over what the device
// sustains.
//
// GEMM:      max(the fastest tile's flops / (peak * clock * ceiling * K/(K + half_k) * efficiency),
//                bytes of A, B and C once / (memory bandwidth * sustained fraction))
//            A library picks the tile that serves a shape best; half_k is what filling and draining
//            a tile costs; K may be split over blocks, whose sums are then added.
// attention: visible flops / (rate * v/(v + half_sequence/2)) with v keys visible to a query, half
//            the sequence under a causal mask; backward has its own rate and five matrix products;
//            a window of W keys works on whole blocks of keys
// streaming: bytes / (memory bandwidth * sustained fraction * stack factor)
// scan:      7 flops a token, channel and state / (16-bit peak * share)
// Efficiency of tiles: they come in whole waves of one tile an SM (NVIDIA, Matrix Multiplication
// Background), and a tile of m x n loads (1/m + 1/n) elements for each product, which costs
// tile_reuse * (1/m + 1/n) of the time that the product takes.
#pragma once

#include "sim/cost/shapes.h"

namespace stepsim {

/// A kernel: its time alone on the device, and what it asks of what it may have to share.
struct Kernel {
  Seconds duration;
  Bytes memory;             ///< traffic, for the share of the bandwidth it needs
  int sms = 0;              ///< SMs that give it full speed; 0: it never shares them (a given time)
  int64_t blocks = 0;       ///< equal blocks that it places on them; 0: many small ones
  bool persistent = false;  ///< they stay to its end
  int saturating_sms = 0;   ///< SMs that give its full rate; 0: `sms`
};
/// A given time: nothing is known of what it shares.
inline Kernel given_kernel(Seconds duration) {
  return {.duration = duration,
          .memory = {},
          .sms = 0,
          .blocks = 0,
          .persistent = false,
          .saturating_sms = 0};
}
/// One of `parts` equal pieces.
Kernel operator/(const Kernel& kernel, double parts);
/// `rider` in the epilogue of `kernel`.
Kernel operator+(const Kernel& kernel, const Kernel& rider);

/// Arithmetic and memory time of kernels on one device under one software stack.
class KernelModel {
 public:
  /// `slowdown`: every kernel takes so many times as long (a faulty or throttled device).
  KernelModel(const Device& device, const StackProfile& stack, double slowdown = 1)
      : device_(device), stack_(stack), slowdown_(slowdown) {}

  double slowdown() const { return slowdown_; }
  /// `sms`: SMs the GEMM may use, 0 = all.
  Kernel gemm(const Gemm& gemm, Dtype dtype, int sms = 0) const;
  /// GEMMs of `gemm.batch` experts, `concurrent` of them at a time (0 = all in one grid: a grouped
  /// kernel). Each is a launch of its own unless all are in one grid. Persistent kernels fill the
  /// SMs alone: streams bring them nothing. `epilogue`: bytes that it reads and writes beside its
  /// operands and results.
  Kernel grouped_gemm(const Gemm& gemm, Dtype dtype, int concurrent = expert_streams,
                      Bytes epilogue = {}) const;
  Kernel attention_forward(const Attention& a) const;
  Kernel attention_backward(const Attention& a) const;
  Kernel scan_forward(const StateScan& scan) const;
  Kernel scan_backward(const StateScan& scan) const;
  /// A kernel that only moves bytes, in many small blocks.
  Kernel streaming(Bytes bytes) const;
  /// One that moves bytes with a block on each SM but `margin` (persistent, as norms are).
  Kernel persistent(Bytes bytes, int margin) const;
  /// One that moves rows by index: permutations of tokens.
  Kernel gather(Bytes bytes) const;
  /// Scores of `experts` for each of `tokens` to probabilities and the map of the chosen ones.
  Kernel router(double tokens, double experts) const;
  /// Bytes that ride in another kernel's epilogue: no launch, no fill.
  Kernel traffic(Bytes bytes) const;

 private:
  double attention_rate(const Attention& a, bool backward) const;
  const AttentionCurve& attention_curve(Dtype dtype) const;
  Kernel slowed(Kernel kernel) const;
  Kernel products(const Gemm& gemm, Dtype dtype, int sms, double in_flight,
                  Bytes epilogue = {}) const;
  Kernel fused_attention(const Attention& a, bool backward) const;
  Kernel scan(const StateScan& scan, double times) const;
  Kernel unfused_attention(const Attention& a, bool backward) const;
  const Device& device_;
  const StackProfile& stack_;
  double slowdown_;
};

/// A grid of output tiles; K is split over `splits` blocks for each.
struct TileGrid {
  double tile_m = 0, tile_n = 0;
  double tiles = 0;  ///< blocks, splits included
  double splits = 1;
  double duration = 0;  ///< seconds of the products and of adding split sums
};
/// The grid that serves a GEMM fastest on `sms` of the device's SMs, at `rate` FLOP/s of whole
/// waves of the largest tile on all of them.
TileGrid best_grid(const Gemm& gemm, const Device& device, const GemmCurve& curve, int sms,
                   double rate);

}  // namespace stepsim
