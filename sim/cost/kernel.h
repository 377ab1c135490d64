// Time of one kernel at full speed: the larger of its arithmetic and its bytes over what the device
// sustains.
//
// GEMM:      max(flops / (peak * clock * ceiling * K/(K + half_k) * wave efficiency),
//                bytes of A, B and C once / (memory bandwidth * sustained fraction))
// attention: visible flops / (rate * s/(s + half_sequence)); backward has its own rate and five
//            matrix products; a window of W keys works on whole blocks of keys
// streaming: bytes / (memory bandwidth * sustained fraction * stack factor)
// scan:      7 flops a token, channel and state / (16-bit peak * share)
// Wave efficiency: output tiles come in whole waves of one tile an SM (NVIDIA, Matrix
// Multiplication Background).
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

  /// `sms`: SMs the GEMM may use, 0 = all.
  Kernel gemm(const Gemm& gemm, Dtype dtype, int sms = 0) const;
  /// GEMMs of `gemm.batch` experts, `concurrent` of them in one grid (0 = all: a grouped kernel).
  /// Each is a launch of its own unless all are in one grid.
  /// `epilogue`: bytes that it reads and writes beside its operands and results.
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
  double attention_rate(const Attention& a, FlopsPerSecond asymptote) const;
  Kernel slowed(Kernel kernel) const;
  Kernel products(const Gemm& gemm, Dtype dtype, int sms, double in_flight,
                  Bytes epilogue = {}) const;
  Kernel fused_attention(const Attention& a, Flops flops, FlopsPerSecond asymptote) const;
  Kernel scan(const StateScan& scan, double times) const;
  Kernel unfused_attention(const Attention& a, bool backward) const;
  const Device& device_;
  const StackProfile& stack_;
  double slowdown_;
};

/// The tile grid that serves a GEMM best.
struct TileGrid {
  double tile_m = 0, tile_n = 0, tiles = 0;
  double efficiency = 0;  ///< share of full waves that it fills, times the tile shape's own rate
};
TileGrid best_grid(const Gemm& gemm, int tile_m, int tile_n, int sms);

/// Share of full waves that a grid of output tiles fills, for the best of the library's tile
/// shapes; in (0, 1].
double wave_efficiency(const Gemm& gemm, int tile_m, int tile_n, int sms);

}  // namespace stepsim
