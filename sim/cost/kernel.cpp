#include "sim/cost/kernel.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stepsim {

namespace {
/// Smaller tiles than the device's own, by its sides: they fill the last wave better.
struct TileShare {
  double m, n;
};
constexpr std::array<TileShare, 5> tile_shares{
    {{1, 1}, {1, 0.5}, {0.5, 1}, {0.5, 0.5}, {0.5, 0.25}}};
/// Blocks that K is split over where tiles alone do not fill the device.
constexpr std::array<double, 3> k_splits{1, 2, 4};

/// Backward of a scan runs its forward again and both gradients, of inputs and of states.
constexpr double scan_backward_factor = 2.5;
/// Bytes a token and channel of a scan: inputs and outputs of 16 bits.
constexpr double scan_bytes = 4;

/// A score is read and its probability written in fp32, its place in the map in one byte.
constexpr double router_bytes = 9;

/// Queries of one head that a block of a fused kernel works on (FlashAttention-2 and -3).
constexpr double attention_block = 128;

/// Bytes per score element of attention that materialises its scores in 16 bit, beside what its
/// matrix products read and write: forward softmax (read, write) and dropout (read, write, mask);
/// backward dropout (read, mask, write) and softmax (read two, write).
constexpr double unfused_forward_bytes = 9, unfused_backward_bytes = 11;
}  // namespace

TileGrid best_grid(const Gemm& gemm, const Device& device, const GemmCurve& curve, int sms,
                   double rate) {
  TileGrid best;
  const Tile& own = device.tile;
  const double reuse = curve.tile_reuse < 0 ? device.tile_reuse : curve.tile_reuse;
  const auto loads = [&](double m, double n) { return 1 + reuse * (1 / m + 1 / n); };
  const Tile& largest = curve.tiles.empty() ? own : curve.tiles.front();
  const double reference = loads(largest.m, largest.n);
  const auto consider = [&](double m, double n) {
    for (const double splits : k_splits) {
      if (splits > 1 && !curve.split_k) break;
      TileGrid grid{.tile_m = m, .tile_n = n, .splits = splits};
      grid.tiles = std::ceil(gemm.m / m) * std::ceil(gemm.n / n) * gemm.batch * splits;
      const double depth = gemm.k / splits + curve.half_k;
      grid.duration = std::ceil(grid.tiles / sms) * device.sms * 2 * m * n * depth *
                      (loads(m, n) / reference) / rate;
      // Sums of parts are written and read in fp32 by a kernel that follows.
      if (splits > 1)
        grid.duration += (Bytes{splits * gemm.batch * gemm.m * gemm.n * 8} /
                          (device.memory_bandwidth * device.memory_efficiency))
                             .value +
                         device.kernel_gap.value;
      if (best.duration <= 0 || grid.duration < best.duration) best = grid;
    }
  };
  for (const Tile& tile : curve.tiles) consider(tile.m, tile.n);
  if (curve.tiles.empty())
    for (const TileShare& share : tile_shares) {
      consider(own.m * share.m, own.n * share.n);
      consider(own.n * share.n, own.m * share.m);
    }
  return best;
}

Kernel operator/(const Kernel& kernel, double parts) {
  return {kernel.duration / parts,
          kernel.memory * (1 / parts),
          kernel.sms,
          static_cast<int64_t>(std::ceil(static_cast<double>(kernel.blocks) / parts)),
          kernel.persistent,
          kernel.saturating_sms};
}

Kernel operator+(const Kernel& kernel, const Kernel& rider) {
  return {kernel.duration + rider.duration,
          kernel.memory + rider.memory,
          kernel.sms,
          kernel.blocks,
          kernel.persistent,
          kernel.saturating_sms};
}

Kernel KernelModel::slowed(Kernel kernel) const {
  kernel.duration *= slowdown_;
  // A faster one asks for no more of the memory than the device has.
  if (slowdown_ < 1) kernel.memory *= slowdown_;
  return kernel;
}

Kernel KernelModel::gemm(const Gemm& gemm, Dtype dtype, int sms) const {
  return products(gemm, dtype, sms, gemm.batch);
}

Kernel KernelModel::grouped_gemm(const Gemm& gemm, Dtype dtype, int concurrent,
                                 Bytes epilogue) const {
  if (concurrent > 0 && device_.persistent_gemm) concurrent = 1;
  return products(gemm, dtype, 0,
                  concurrent > 0 ? std::min<double>(concurrent, gemm.batch) : gemm.batch, epilogue);
}

Kernel KernelModel::products(const Gemm& gemm, Dtype dtype, int sms, double in_flight,
                             Bytes epilogue) const {
  const GemmCurve& curve = device_.gemm[static_cast<size_t>(dtype)];
  const int used = sms > 0 ? std::min(sms, device_.sms) : device_.sms;
  const double rounds = gemm.batch / in_flight;
  const double full = curve.peak.value * curve.ceiling * stack_.clock_factor;
  TileGrid grid = best_grid({gemm.m, gemm.n, gemm.k, in_flight}, device_, curve, used, full);
  // In long runs the power limit holds down the mean rate: SMs that idle leave theirs to the
  // others.
  if (!stack_.burst)
    grid.duration = std::max(grid.duration,
                             gemm.flops().value / rounds /
                                 (full * device_.sustained * device_.slowest * used / device_.sms));
  // Operands are read and the result written once; fp8 results are 16 bit.
  const double in = bytes_per_element(dtype), out = std::max(in, 2.0);
  const double results = gemm.batch * out * gemm.m * gemm.n + epilogue.value;
  const Bytes moved{gemm.batch * in * gemm.k * (gemm.m + gemm.n) + results};
  // A wave of tiles covers about a square of the result and reads the operands' strips for it.
  const double side =
      std::sqrt(std::min<double>(grid.tiles / grid.splits, used) * grid.tile_m * grid.tile_n);
  const double strips = std::min(gemm.m, side) + std::min(gemm.n, side);
  const Bytes read_by_waves{
      rounds * std::ceil(grid.tiles / grid.splits / used) * in * gemm.k * strips + results};
  const Seconds streamed = (moved - epilogue) / (device_.memory_bandwidth * device_.gemm_memory) +
                           epilogue / (device_.memory_bandwidth * device_.memory_efficiency);
  const Seconds duration = std::max(Seconds{rounds * grid.duration}, streamed) + device_.kernel_gap;
  return slowed({duration, std::max(moved, read_by_waves), used,
                 static_cast<int64_t>(std::ceil(rounds * grid.tiles)), device_.persistent_gemm, 0});
}

const AttentionCurve& KernelModel::attention_curve(Dtype dtype) const {
  const AttentionCurves& curves = device_.attention;
  const AttentionCurve& own = dtype == Dtype::mxfp8 ? curves.mxfp8
                              : dtype == Dtype::fp8 ? curves.fp8
                                                    : curves.bf16;
  return own.forward.value > 0 ? own : curves.bf16;
}

double KernelModel::attention_rate(const Attention& a, bool backward) const {
  // Filling and draining a block of queries costs half_sequence / 2 keys. The blocks of keys that a
  // window cuts are worked on in full.
  const AttentionCurve& curve = attention_curve(a.dtype);
  const double half = backward && curve.backward_half_sequence > 0 ? curve.backward_half_sequence
                                                                   : curve.half_sequence;
  const double visible = a.keys * a.visible;
  const double cut = a.window > 0 && a.window < a.keys ? attention_block : 0;
  const double dim = a.head_dim <= 64    ? curve.head_dim_64_factor
                     : a.head_dim <= 128 ? 1
                     : backward          ? curve.wide_backward
                                         : curve.wide_forward;
  return (backward ? curve.backward : curve.forward).value * stack_.clock_factor *
         stack_.attention_factor * visible / (visible + cut + half / 2) * dim;
}

Kernel KernelModel::unfused_attention(const Attention& a, bool backward) const {
  // Every score is computed, masked or not: two batched products forward, four backward.
  const double batch = a.batch * a.heads;
  const Gemm scores{a.queries, a.keys, a.head_dim, batch},
      values{a.queries, a.values(), a.keys, batch};
  const Kernel pair = gemm(scores, a.dtype) + gemm(values, a.dtype);
  const double elements = batch * a.queries * a.keys;
  return backward ? pair + pair + streaming({elements * unfused_backward_bytes})
                  : pair + streaming({elements * unfused_forward_bytes});
}

Kernel KernelModel::fused_attention(const Attention& asked, bool backward) const {
  // Backward kernels in 8 bits do not skip the blocks outside a window: their time is quadratic in
  // the sequence (NVIDIA/cudnn-frontend benchmark/sdpa_benchmark_training, windows of 128).
  const bool skips = !backward || asked.window <= 0 || bytes_per_element(asked.dtype) >= 2;
  const Attention a =
      skips ? asked
            : causal_attention(asked.batch, asked.heads, asked.head_dim, asked.queries, asked.keys,
                               asked.dtype, 0, asked.value_dim);
  // A block works on 128 queries of a head; queries, keys, values and outputs move once.
  const double heads = a.batch * a.heads;
  const Flops flops = backward ? a.backward_flops() : a.forward_flops();
  return slowed(
      {Seconds{flops.value / attention_rate(a, backward)} + device_.kernel_gap,
       {heads * (a.head_dim + a.values()) * (a.queries + a.keys) * bytes_per_element(a.dtype)},
       device_.sms,
       static_cast<int64_t>(heads * std::ceil(a.queries / attention_block)),
       false});
}

Kernel KernelModel::attention_forward(const Attention& a) const {
  return stack_.fused_attention ? fused_attention(a, false) : unfused_attention(a, false);
}

Kernel KernelModel::attention_backward(const Attention& a) const {
  return stack_.fused_attention ? fused_attention(a, true) : unfused_attention(a, true);
}

Kernel KernelModel::scan(const StateScan& scan, double times) const {
  const auto dtype = static_cast<size_t>(
      device_.gemm[static_cast<size_t>(Dtype::bf16)].peak.value > 0 ? Dtype::bf16 : Dtype::fp16);
  const double rate = device_.gemm[dtype].peak.value * device_.scan_share * stack_.clock_factor;
  // Inputs, gates and outputs are channels of 16 bits; the states stay in the blocks.
  const Bytes moved{times * scan.tokens * scan.channels * scan_bytes};
  const Seconds duration = std::max(Seconds{times * scan.forward_flops().value / rate},
                                    traffic(moved).duration / slowdown_) +
                           device_.kernel_gap;
  return slowed({duration, moved, device_.sms,
                 static_cast<int64_t>(std::ceil(scan.tokens / attention_block)), false});
}

Kernel KernelModel::scan_forward(const StateScan& s) const { return scan(s, 1); }
Kernel KernelModel::scan_backward(const StateScan& s) const {
  return scan(s, scan_backward_factor);
}

Kernel KernelModel::gather(Bytes bytes) const {
  // The share is of all that the pass does, so no factor of the stack comes on top.
  const Seconds duration =
      bytes / (device_.memory_bandwidth * device_.gather_efficiency) + device_.kernel_gap;
  return slowed({duration, bytes,
                 static_cast<int>(std::ceil(device_.sms * device_.streaming_sm_share)), 0, false});
}

Kernel KernelModel::router(double tokens, double experts) const {
  Kernel kernel = gather({tokens * experts * router_bytes});
  kernel.duration = std::max(kernel.duration, device_.small_kernel * slowdown_);
  return kernel;
}

Kernel KernelModel::traffic(Bytes bytes) const {
  const Seconds duration =
      bytes / (device_.memory_bandwidth * (device_.memory_efficiency * stack_.memory_factor));
  // It saturates the memory, whatever share of that its counted bytes explain.
  return slowed({duration, device_.memory_bandwidth * device_.memory_efficiency * duration,
                 static_cast<int>(std::ceil(device_.sms * device_.streaming_sm_share)), 0, false});
}

Kernel KernelModel::streaming(Bytes bytes) const {
  Kernel kernel = traffic(bytes);
  kernel.duration += slowdown_ * device_.kernel_gap;
  return kernel;
}

Kernel KernelModel::persistent(Bytes bytes, int margin) const {
  Kernel kernel = traffic(bytes);
  kernel.saturating_sms = kernel.sms;
  kernel.sms = std::max(1, device_.sms - margin);
  kernel.duration *= std::max(1.0, static_cast<double>(kernel.saturating_sms) / kernel.sms);
  kernel.duration += slowdown_ * device_.kernel_gap;
  kernel.blocks = kernel.sms;
  return kernel;
}

}  // namespace stepsim
