// Sizes of recurrent mixers and bytes of optimizer passes, by hand.
#include <doctest/doctest.h>

#include "sim/cost/mixer_sizes.h"
#include "sim/cost/optimizer_traffic.h"

using namespace stepsim;

// 8 heads of 16, 2 groups of 32 states: in 2 * 128 + 2 * 64 + 8 = 392 features, cut over two ranks.
TEST_CASE("a Mamba layer on one rank") {
  LayerSizes z;
  z.tokens = 100;
  z.hidden = 64;
  const MixerSizes m =
      mamba_sizes(z, {.heads = 8, .head_dim = 16, .groups = 2, .state = 32, .conv = 4}, 2);
  CHECK(m.in.flops().value == 2.0 * 100 * 64 * 196);
  CHECK(m.out.flops().value == 2.0 * 100 * 64 * 64);
  CHECK(m.scan.forward_flops().value == 7.0 * 100 * 64 * 32);
  CHECK(m.conv_bytes == 100.0 * (128 + 2 * 64) / 2 * 4);
  CHECK(m.gate_bytes == 100.0 * 64 * 6);
}

// 2 key heads of 8, 4 value heads of 16: in 2 * 16 + 2 * 64 + 8 = 168 features.
TEST_CASE("a gated delta net on one rank") {
  LayerSizes z;
  z.tokens = 100;
  z.hidden = 64;
  const MixerSizes m = delta_net_sizes(
      z, {.key_heads = 2, .value_heads = 4, .key_dim = 8, .value_dim = 16, .conv = 4}, 1);
  CHECK(m.in.flops().value == 2.0 * 100 * 64 * 168);
  CHECK(m.out.flops().value == 2.0 * 100 * 64 * 64);
  CHECK(m.scan.forward_flops().value == 7.0 * 100 * 64 * 8);
  CHECK(m.conv_bytes == 100.0 * (2 * 16 + 64) * 4);
}

// Reads 16 and writes 12 bytes a parameter in fp32; moments in bf16 and gradients as they are
// reduced: 2 * (4 + 2 + 2) + 2.
TEST_CASE("bytes of an Adam step") {
  CHECK(optimizer_traffic(12, 4, false).adam == 28);
  CHECK(optimizer_traffic(12, 4, false).copy == 0);
  CHECK(optimizer_traffic(12, 2, false).copy == 6);
  CHECK(optimizer_traffic(12, 2, false).norm == 4);
  CHECK(optimizer_traffic(8, 2, true).adam == 18);
  CHECK(optimizer_traffic(8, 2, true).copy == 0);
  CHECK(optimizer_traffic(8, 2, true).norm == 2);
}
