// What the recipes of Megatron-Bridge's mixed_precision.py cost: types, passes, bytes.
#include "sim/cost/quantize.h"

#include <doctest/doctest.h>

using namespace stepsim;

namespace {
Precision recipe(Fp8Recipe fp8, bool gather = false) {
  Precision p;
  p.fp8 = fp8;
  p.fp8_param_gather = gather;
  return p;
}
}  // namespace

TEST_CASE("GEMMs of a recipe run in its own type") {
  CHECK(gemm_dtype(recipe(Fp8Recipe::none)) == Dtype::bf16);
  CHECK(gemm_dtype(recipe(Fp8Recipe::delayed)) == Dtype::fp8);
  CHECK(gemm_dtype(recipe(Fp8Recipe::current)) == Dtype::fp8);
  CHECK(gemm_dtype(recipe(Fp8Recipe::blockwise)) == Dtype::fp8_block);
  CHECK(gemm_dtype(recipe(Fp8Recipe::mxfp8)) == Dtype::mxfp8);
  CHECK(gemm_dtype(recipe(Fp8Recipe::nvfp4)) == Dtype::nvfp4);
}

// Transformer Engine PR 2012 (current scaling, Blackwell only) and 2719 (MXFP8).
TEST_CASE("attention in FP8 where its recipe and the GPU have it") {
  Device hopper, blackwell;
  hopper.architecture = "hopper";
  blackwell.architecture = "blackwell";
  Precision p = recipe(Fp8Recipe::mxfp8);
  CHECK(attention_dtype(p, blackwell) == Dtype::bf16);
  CHECK(attention_cast_bytes(p, blackwell) == 0);
  p.fp8_attention = true;
  CHECK(attention_dtype(p, blackwell) == Dtype::mxfp8);
  CHECK(attention_cast_bytes(p, blackwell) == quantize_bytes(p, Operand::input) + 4);
  CHECK(attention_dtype(p, hopper) == Dtype::bf16);
  p.fp8 = Fp8Recipe::current;
  CHECK(attention_dtype(p, blackwell) == Dtype::fp8);
  CHECK(attention_dtype(p, hopper) == Dtype::bf16);
  p.fp8 = Fp8Recipe::delayed;
  CHECK(attention_dtype(p, hopper) == Dtype::fp8);
  CHECK(attention_cast_bytes(p, hopper) == 3);
  p.fp8 = Fp8Recipe::nvfp4;
  CHECK(attention_dtype(p, blackwell) == Dtype::bf16);
}

// OCP Microscaling Formats v1.0: a byte of scale for 32 values; NVFP4: for 16 values of half a
// byte.
TEST_CASE("a quantised element takes its share of the scales") {
  CHECK(operand_bytes(recipe(Fp8Recipe::none)) == 2);
  CHECK(operand_bytes(recipe(Fp8Recipe::current)) == 1);
  CHECK(operand_bytes(recipe(Fp8Recipe::mxfp8)) == 1.03125);
  CHECK(operand_bytes(recipe(Fp8Recipe::nvfp4)) == 0.5625);
}

// Megatron-Core distributed/param_and_grad_buffer.py.
TEST_CASE("weights travel as they are kept; MXFP8 ones in 16 bits through the gradient buffer") {
  CHECK(gathered_weight_bytes(recipe(Fp8Recipe::none)) == 2);
  CHECK(gathered_weight_bytes(recipe(Fp8Recipe::current, false)) == 2);
  CHECK(gathered_weight_bytes(recipe(Fp8Recipe::current, true)) == 1);
  CHECK(gathered_weight_bytes(recipe(Fp8Recipe::mxfp8, true)) == 2);
  CHECK(gathered_weight_bytes(recipe(Fp8Recipe::nvfp4, true)) == 0.5625);
  CHECK(!casts_weights(recipe(Fp8Recipe::none)));
  CHECK(!casts_weights(recipe(Fp8Recipe::delayed, true)));
  CHECK(casts_weights(recipe(Fp8Recipe::delayed, false)));
  CHECK(casts_weights(recipe(Fp8Recipe::mxfp8, true)));
}

TEST_CASE("a rank keeps both layouts of a weight, and 16 bits unless it is gathered quantised") {
  CHECK(weight_bytes(recipe(Fp8Recipe::none)) == 2);
  CHECK(weight_bytes(recipe(Fp8Recipe::delayed, true)) == 2);
  CHECK(weight_bytes(recipe(Fp8Recipe::blockwise, false)) == 2 + 2 * 1.03125);
  CHECK(weight_bytes(recipe(Fp8Recipe::nvfp4, true)) == 1.125);
}

TEST_CASE("finer scales take heavier passes") {
  double last = 0;
  for (const Fp8Recipe r : {Fp8Recipe::none, Fp8Recipe::delayed, Fp8Recipe::blockwise,
                            Fp8Recipe::mxfp8, Fp8Recipe::nvfp4}) {
    CHECK(quantize_bytes(recipe(r), Operand::input) >= last);
    last = quantize_bytes(recipe(r), Operand::input);
  }
  // Current scaling reads every element once more for the maximum.
  CHECK(quantize_bytes(recipe(Fp8Recipe::current), Operand::gradient) ==
        quantize_bytes(recipe(Fp8Recipe::delayed), Operand::gradient) + 2);
}
