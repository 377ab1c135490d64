// Kernel times worked out by hand on a device with round figures.
#include "sim/cost/kernel.h"

#include <doctest/doctest.h>

using namespace stepsim;

namespace {

/// 10 SMs, tiles of 100 x 100, 100 TFLOP/s of which 0.8 can be reached, half of that at K = 1000; 1
/// TB/s of which 0.5.
Device toy() {
  Device d;
  d.sms = 10;
  d.tile = {100, 100};
  d.gemm[static_cast<size_t>(Dtype::bf16)] = {100.0_TFLOPs, 0.8, 1000};
  d.gemm[static_cast<size_t>(Dtype::fp8)] = {200.0_TFLOPs, 0.8, 1000};
  d.attention.bf16 = {50.0_TFLOPs, 25.0_TFLOPs, 500, 0.5};
  d.memory_bandwidth = 1000.0_GBps;
  d.memory_efficiency = d.gather_efficiency = d.gemm_memory = 0.5;
  d.kernel_gap = 2.0_us;
  return d;
}

const Device device = toy();
const StackProfile plain{};
/// Sustained fractions of clock, attention and memory.
StackProfile sustained(double clock, double attention, double memory) {
  StackProfile stack;
  stack.clock_factor = clock;
  stack.attention_factor = attention;
  stack.memory_factor = memory;
  return stack;
}
KernelModel model(const StackProfile& stack = plain) { return {device, stack}; }
doctest::Approx near(double x) { return doctest::Approx(x).epsilon(1e-12); }

}  // namespace

TEST_CASE("a GEMM of whole waves runs at peak x ceiling x K/(K + half_k)") {
  // 1000 x 1000 outputs are 100 tiles: 10 waves of 10 SMs. 2e9 FLOPs at K = 1000 over 100e12 * 0.8
  // * 0.5.
  CHECK(model().gemm({1000, 1000, 1000}, Dtype::bf16).duration.value == near(2e9 / 40e12 + 2e-6));
  // Four times the depth: K/(K + half_k) = 0.8.
  CHECK(model().gemm({1000, 1000, 4000}, Dtype::bf16).duration.value == near(8e9 / 64e12 + 2e-6));
  CHECK(model().gemm({1000, 1000, 1000}, Dtype::fp8).duration.value == near(2e9 / 80e12 + 2e-6));
  // A batch is that many GEMMs in one grid.
  CHECK(model().gemm({1000, 1000, 1000, 3}, Dtype::bf16).duration.value ==
        near(6e9 / 40e12 + 2e-6));
}

// Reads A and B and writes C once: 2 bytes x (2 x 100 x 1000 + 100 x 1000) over 0.5 TB/s, longer
// than its arithmetic when there are few rows.
TEST_CASE("a GEMM of few rows is bound by its bytes") {
  const double bytes = 2.0 * (1000 * (1 + 10000) + 1 * 10000);
  CHECK(model().gemm({1, 10000, 1000}, Dtype::bf16).duration.value == near(bytes / 500e9 + 2e-6));
  // fp8 halves what is read; the result stays 16 bit.
  const double fp8 = 1000 * (1 + 10000) + 2.0 * 10000;
  CHECK(model().gemm({1, 10000, 1000}, Dtype::fp8).duration.value == near(fp8 / 500e9 + 2e-6));
}

TEST_CASE("clocks scale arithmetic and not the gap between kernels") {
  const StackProfile slow = sustained(0.5, 1, 1);
  CHECK(model(slow).gemm({1000, 1000, 1000}, Dtype::bf16).duration.value ==
        near(2e9 / 20e12 + 2e-6));
}

// The short runs of a benchmark are not held back by the power limit.
TEST_CASE("what the power limit leaves holds but for short runs") {
  Device limited = toy();
  limited.sustained = 0.25;  // 20 of the 80 TFLOP/s: half of what K = 1000 leaves
  CHECK(KernelModel(limited, plain).gemm({1000, 1000, 1000}, Dtype::bf16).duration.value ==
        near(2e9 / 20e12 + 2e-6));
  StackProfile burst;
  burst.burst = true;
  CHECK(KernelModel(limited, burst).gemm({1000, 1000, 1000}, Dtype::bf16).duration.value ==
        near(2e9 / 40e12 + 2e-6));
}

TEST_CASE("the slowest GPU of a cluster has less than the mean one") {
  Device limited = toy();
  limited.sustained = 0.25;
  limited.slowest = 0.5;
  CHECK(KernelModel(limited, plain).gemm({1000, 1000, 1000}, Dtype::bf16).duration.value ==
        near(2e9 / 10e12 + 2e-6));
}

namespace {
/// Share of the rate of whole waves of the largest tile, on 10 SMs with tiles of 100 x 100 and less
/// and a reuse of 20: halves run at 1.4/1.6 of its rate, quarters at 1.4/1.8, eighths at 1.4/2.2.
double wave_efficiency(const Gemm& gemm) {
  Device d = toy();
  d.tile_reuse = 20;
  const GemmCurve whole{
      .peak = {}, .ceiling = 1, .half_k = 0, .tile_reuse = -1, .tiles = {}, .split_k = false};
  return gemm.flops().value / best_grid(gemm, d, whole, d.sms, 1).duration;
}
}  // namespace

// NVIDIA, Matrix Multiplication Background: tiles come in whole waves of one tile an SM.
TEST_CASE("tiles beyond whole waves cost a whole wave") {
  CHECK(wave_efficiency({1000, 1000, 1}) == near(1));
  // 11 tiles take two waves of 10: 0.55 full. Halves, 22 in 3 waves, are 22/30 full; quarters, 44
  // in 5 waves, 0.88; eighths, 88 in 9 waves, 88/90, but slow: quarters are best.
  CHECK(wave_efficiency({1100, 100, 1}) == near(0.88 * 1.4 / 1.8));
  // One tile: in eighths, 0.8 of a wave.
  CHECK(wave_efficiency({100, 100, 1}) == near(0.8 * 1.4 / 2.2));
  // One row more than whole tiles: eighths of 25 rows are 5 x 2 tiles, a whole wave.
  CHECK(wave_efficiency({101, 100, 1}) == near(101 * 100.0 / (10 * 25 * 50) * 1.4 / 2.2));
  // A batch fills the wave: 10 single tiles.
  CHECK(wave_efficiency({100, 100, 1, 10}) == near(1));
}

TEST_CASE("law: wave efficiency is in (0, 1] and a wave's multiple fills it") {
  for (double m = 17; m < 5000; m *= 1.37)
    for (double n = 17; n < 5000; n *= 1.53) {
      const double e = wave_efficiency({m, n, 1});
      CHECK(e > 0);
      CHECK(e <= 1 + 1e-12);
    }
  CHECK(wave_efficiency({100 * 12, 100 * 5, 1}) == near(1));
}

// One tile of K = 16000 on one of 10 SMs; in quarters of K four blocks of 4000 + 1000, whose sums,
// four times 100 x 100 in 8 bytes, take 0.64 us at 0.5 TB/s and a launch.
TEST_CASE("K is split over blocks where tiles do not fill the device") {
  Device d = toy();
  const GemmCurve one{
      .peak = {}, .ceiling = 1, .half_k = 1000, .tiles = {{100, 100}}, .split_k = true};
  const TileGrid split = best_grid({100, 100, 16000}, d, one, d.sms, 80e12);
  CHECK(split.splits == 4);
  CHECK(split.duration == near(10 * 2e4 * 5000 / 80e12 + 0.64e-6 + 2e-6));
  GemmCurve whole = one;
  whole.split_k = false;
  CHECK(best_grid({100, 100, 16000}, d, whole, d.sms, 80e12).duration ==
        near(10 * 2e4 * 17000 / 80e12));
}

TEST_CASE("a GEMM on fewer SMs takes the waves of those") {
  // 5 SMs: 20 whole waves, half the rate. More than there are: all.
  CHECK(model().gemm({1000, 1000, 1000}, Dtype::bf16, 5).duration.value ==
        near(2e9 / 20e12 + 2e-6));
  CHECK(model().gemm({1000, 1000, 1000}, Dtype::bf16, 99).duration ==
        model().gemm({1000, 1000, 1000}, Dtype::bf16).duration);
  // 8 of 10 SMs: 100 tiles in 13 waves of 8, 100/104 full; halves, 200 in 25 waves, are whole.
  CHECK(model().gemm({1000, 1000, 1000}, Dtype::bf16, 8).duration.value ==
        near(2e9 / (40e12 * 0.8) + 2e-6));
}

// Dao, FlashAttention-2: backward makes five matrix products where forward makes two.
TEST_CASE(
    "attention counts causal FLOPs, ramps with the sequence and pays five products for two "
    "backward") {
  const Attention a{.batch = 2, .heads = 4, .head_dim = 128, .queries = 500, .keys = 500};
  // 4 * b * h * s * s * d / 2 = 5.12e8; at s = half_sequence half the rate.
  CHECK(a.forward_flops().value == near(5.12e8));
  CHECK(model().attention_forward(a).duration.value == near(5.12e8 / 25e12 + 2e-6));
  CHECK(model().attention_backward(a).duration.value == near(2.5 * 5.12e8 / 12.5e12 + 2e-6));
  Attention square = a;
  square.visible = 1;
  // All 500 keys visible, the ramp costs 250: 500/750 of the rate.
  CHECK(model().attention_forward(square).duration.value ==
        near(2 * 5.12e8 / (50e12 * 500 / 750) + 2e-6));
  Attention narrow = a;
  narrow.head_dim = 64;  // half the FLOPs at half the rate
  CHECK(model().attention_forward(narrow).duration.value == near(5.12e8 / 25e12 + 2e-6));
  const StackProfile old = sustained(0.5, 0.5, 1);
  CHECK(model(old).attention_forward(a).duration.value == near(5.12e8 / 6.25e12 + 2e-6));
}

TEST_CASE("attention that materialises its scores computes the masked ones too and moves them") {
  StackProfile old;
  old.fused_attention = false;
  const Attention a{.batch = 1, .heads = 10, .head_dim = 1000, .queries = 1000, .keys = 1000};
  const double products = 2 * model().gemm({1000, 1000, 1000, 10}, Dtype::bf16).duration.value;
  const double elements = 10 * 1e6;
  CHECK(model(old).attention_forward(a).duration.value ==
        near(products + elements * 9 / 500e9 + 2e-6));
  CHECK(model(old).attention_backward(a).duration.value ==
        near(2 * products + elements * 11 / 500e9 + 2e-6));
}

TEST_CASE(
    "a streaming kernel moves its bytes at the sustained bandwidth after one gap; traffic has no "
    "gap") {
  CHECK(model().streaming({1e9}).duration.value == near(2e-3 + 2e-6));
  CHECK(model().traffic({1e9}).duration.value == near(2e-3));
  const StackProfile stack = sustained(1, 1, 0.8);
  CHECK(model(stack).traffic({1e9}).duration.value == near(2.5e-3));
  CHECK(model().streaming({0}).duration.value == near(2e-6));
}

// Transformer Engine runs the GEMMs of experts on four streams: four tiles of 100 x 100 at a time
// on 10 SMs, a wave of 40 %.
TEST_CASE(
    "experts on streams fill waves together, a few at a time; one grouped kernel all at once") {
  Device d = toy();
  d.memory_bandwidth = 10000.0_GBps;
  const KernelModel kernels(d, plain);
  const Gemm experts{100, 100, 1000, 40};  // 40 experts of one tile
  const double flops = 2.0 * 100 * 100 * 1000 * 40;
  // As they are 0.4 full; halved, 8 of 10.
  CHECK(kernels.grouped_gemm(experts, Dtype::bf16).duration.value ==
        near(flops / (40e12 * 0.8) + 2e-6));
  CHECK(kernels.grouped_gemm(experts, Dtype::bf16, 0).duration.value == near(flops / 40e12 + 2e-6));
  CHECK(kernels.grouped_gemm(experts, Dtype::bf16, 0).blocks == 40);
  // No more than there are.
  CHECK(model().grouped_gemm({100, 100, 1000, 2}, Dtype::bf16).duration ==
        model().gemm({100, 100, 1000, 2}, Dtype::bf16).duration);
}

// Megatron-Core moe_utils.py get_align_size_for_quantization.
TEST_CASE("rows of an expert are padded to what its GEMM asks for") {
  CHECK(padded_rows(33, Dtype::bf16) == 33);
  CHECK(padded_rows(33, Dtype::fp8) == 48);
  CHECK(padded_rows(33, Dtype::mxfp8) == 64);
  CHECK(padded_rows(64, Dtype::nvfp4) == 64);
}

TEST_CASE("attention has its rates by width of heads, by pass and by type") {
  Device d = toy();
  d.attention.bf16.backward_half_sequence = 1500;
  d.attention.bf16.wide_forward = 0.8;
  d.attention.bf16.wide_backward = 0.5;
  d.attention.fp8 = {100.0_TFLOPs, 50.0_TFLOPs, 500};
  const KernelModel kernels(d, plain);
  Attention a{.batch = 1, .heads = 1, .head_dim = 256, .queries = 500, .keys = 500};
  const double flops = a.forward_flops().value;
  CHECK(kernels.attention_forward(a).duration.value == near(flops / (50e12 * 0.5 * 0.8) + 2e-6));
  // 250 keys of 250 + 1500/2.
  CHECK(kernels.attention_backward(a).duration.value ==
        near(2.5 * flops / (25e12 * 0.25 * 0.5) + 2e-6));
  a.dtype = Dtype::fp8;
  CHECK(kernels.attention_forward(a).duration.value == near(flops / (100e12 * 0.5) + 2e-6));
  a.dtype = Dtype::mxfp8;  // not described: as in 16 bits
  CHECK(kernels.attention_forward(a).duration.value == near(flops / (50e12 * 0.5 * 0.8) + 2e-6));
}

// DeepSeek-V3: queries and keys of 192, values of 128.
TEST_CASE("heads whose values are narrower than their keys") {
  const Attention a = causal_attention(1, 1, 192, 500, 500, Dtype::bf16, 0, 128);
  const double pairs = 500 * 500 / 2.0;
  CHECK(a.forward_flops().value == near(2 * pairs * (192 + 128)));
  CHECK(a.backward_flops().value == near(2 * pairs * (3 * 192 + 2 * 128)));
  CHECK(model().attention_forward(a).duration.value == near(2 * pairs * 320 / 25e12 + 2e-6));
}

// W keys a query but for the first W queries: W - W(W-1)/(2s) in the mean.
TEST_CASE("a window limits the keys, and works on one more block of them") {
  const Attention a = causal_attention(1, 1, 128, 4000, 4000, Dtype::bf16, 122);
  const double mean = 122 - 122 * 121 / 8000.0;
  CHECK(a.forward_flops().value == near(4.0 * 4000 * mean * 128));
  // As much of `mean` + 128 + 500/2 is useful.
  CHECK(model().attention_forward(a).duration.value ==
        near(4.0 * 4000 * mean * 128 / (50e12 * mean / (mean + 128 + 250)) + 2e-6));
  // As long as the sequence it limits nothing.
  CHECK(causal_attention(1, 1, 128, 4000, 4000, Dtype::bf16, 4000).visible == 0.5);
}

// NVIDIA/cudnn-frontend's benchmark: four times as long for twice the sequence under one window.
TEST_CASE("backward in 8 bits works on the blocks outside a window too, forward does not") {
  Device d = toy();
  d.attention.fp8 = {100.0_TFLOPs, 50.0_TFLOPs, 500};
  const KernelModel kernels(d, plain);
  const auto windowed = [](Dtype dtype, double window) {
    return causal_attention(1, 1, 128, 4000, 4000, dtype, window);
  };
  CHECK(kernels.attention_backward(windowed(Dtype::fp8, 122)).duration ==
        kernels.attention_backward(windowed(Dtype::fp8, 0)).duration);
  CHECK(kernels.attention_forward(windowed(Dtype::fp8, 122)).duration <
        kernels.attention_forward(windowed(Dtype::fp8, 0)).duration);
  CHECK(kernels.attention_backward(windowed(Dtype::bf16, 122)).duration <
        kernels.attention_backward(windowed(Dtype::bf16, 0)).duration);
}

TEST_CASE("a type may have a reuse of its own") {
  Device d = toy();
  // 1000 x 500 outputs are 50 tiles of 100 x 100, 5 waves; the device's other tiles are no faster.
  const Gemm gemm{1000, 500, 1000};
  GemmCurve curve = d.gemm[static_cast<size_t>(Dtype::bf16)];
  curve.half_k = 0;
  curve.tiles = {{200, 100}, {100, 100}};
  curve.split_k = false;
  // 25 tiles of 200 x 100 take 3 waves of twice the work, at a reuse of 0 one wave more than 5 of
  // 100 x 100; at 100 small tiles take 3 / 2.5 of the time for the same products, and 6 equal 6.
  CHECK(best_grid(gemm, d, curve, 10, 1).duration == near(5 * 10 * 2 * 100 * 100 * 1000.0));
  curve.tile_reuse = 100;
  CHECK(best_grid(gemm, d, curve, 10, 1).duration == near(6 * 10 * 2 * 100 * 100 * 1000.0));
}

TEST_CASE("scans run at a share of the peak or at the rate of their bytes") {
  // 7 FLOPs a token, channel and state at 8 % of 100 TFLOP/s; backward 2.5 times.
  const StateScan scan{.tokens = 1000, .channels = 100, .state = 1000};
  CHECK(model().scan_forward(scan).duration.value == near(7e8 / 8e12 + 2e-6));
  CHECK(model().scan_backward(scan).duration.value == near(2.5 * 7e8 / 8e12 + 2e-6));
  // One state: 4 bytes a channel and token over 0.5 TB/s take longer.
  CHECK(model().scan_forward({1000, 100, 1}).duration.value == near(4e5 / 500e9 + 2e-6));
}

TEST_CASE("permutations move rows at their own share; a router takes no less than a small kernel") {
  Device d = toy();
  d.gather_efficiency = 0.25;
  d.small_kernel = 4.0_us;
  const KernelModel kernels(d, plain);
  CHECK(kernels.gather({1e9}).duration.value == near(4e-3 + 2e-6));
  CHECK(kernels.gather({1e9}).memory.value == near(1e9));
  CHECK(kernels.router(1, 8).duration.value == near(4e-6));
  CHECK(kernels.router(1e6, 1000).duration.value == near(9e9 / 250e9 + 2e-6));
}
