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
  d.tile_m = d.tile_n = 100;
  d.gemm[static_cast<size_t>(Dtype::bf16)] = {100.0_TFLOPs, 0.8, 1000};
  d.gemm[static_cast<size_t>(Dtype::fp8)] = {200.0_TFLOPs, 0.8, 1000};
  d.attention = {50.0_TFLOPs, 25.0_TFLOPs, 500, 0.5};
  d.memory_bandwidth = 1000.0_GBps;
  d.memory_efficiency = 0.5;
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

// NVIDIA, Matrix Multiplication Background: tiles come in whole waves of one tile an SM.
TEST_CASE("tiles beyond whole waves cost a whole wave") {
  CHECK(wave_efficiency({1000, 1000, 1}, 100, 100, 10) == near(1));
  // 11 tiles take two waves of 10: 0.55 full. Halves of a tile are 22 in 3 waves of 10: 22/30 at
  // rate 0.93. Quarters, 44 in 5 waves: 44/50 at rate 0.8 = 0.704, the best.
  CHECK(wave_efficiency({1100, 100, 1}, 100, 100, 10) == near(0.88 * 0.8));
  // One tile: as it is 0.1, halved 0.2 * 0.93, quartered 0.4 * 0.8.
  CHECK(wave_efficiency({100, 100, 1}, 100, 100, 10) == near(0.32));
  // One row more than whole tiles: 101 rows in quarters of 50 are 3 x 2 tiles in one wave of 60%,
  // 101/150 of it useful.
  CHECK(wave_efficiency({101, 100, 1}, 100, 100, 10) == near(101 * 100.0 / (10 * 50 * 50) * 0.8));
  // A batch fills the wave: 10 single tiles.
  CHECK(wave_efficiency({100, 100, 1, 10}, 100, 100, 10) == near(1));
}

TEST_CASE("law: wave efficiency is in (0, 1] and a wave's multiple fills it") {
  for (double m = 17; m < 5000; m *= 1.37)
    for (double n = 17; n < 5000; n *= 1.53) {
      const double e = wave_efficiency({m, n, 1}, 128, 256, 132);
      CHECK(e > 0);
      CHECK(e <= 1);
    }
  CHECK(wave_efficiency({128 * 12, 256 * 11, 1}, 128, 256, 132) == near(1));
}

TEST_CASE("a GEMM on fewer SMs takes the waves of those") {
  // 5 SMs: 20 whole waves, half the rate. More than there are: all.
  CHECK(model().gemm({1000, 1000, 1000}, Dtype::bf16, 5).duration.value ==
        near(2e9 / 20e12 + 2e-6));
  CHECK(model().gemm({1000, 1000, 1000}, Dtype::bf16, 99).duration ==
        model().gemm({1000, 1000, 1000}, Dtype::bf16).duration);
  // 8 of 10 SMs: 100 tiles in 13 waves of 8, 100/104 full at 0.8 of the rate; halves, 200 in 25
  // waves, are whole but run at 0.93.
  CHECK(model().gemm({1000, 1000, 1000}, Dtype::bf16, 8).duration.value ==
        near(2e9 / (40e12 * 0.8 * 100 / 104) + 2e-6));
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
  CHECK(model().attention_forward(square).duration.value == near(2 * 5.12e8 / 25e12 + 2e-6));
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
