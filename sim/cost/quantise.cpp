#include "sim/cost/quantise.h"

#include <array>

namespace stepsim {

namespace {

/// One recipe. Bytes an element of the passes that quantise it.
struct QuantiseRow {
  Fp8Recipe recipe;
  Dtype dtype;
  double tensor, weight;
};
// Bytes are those that the kernel's measured time is worth at the sustained memory bandwidth of its
// GPU (hardware/gpus), where there is a measurement: tests/cost/quantise_test.cpp. Per-tensor
// scaling reads 16 bits and writes two layouts of one byte; current scaling reads once more for the
// maximum. Blocks: the same pass writes both layouts and their scales. NVFP4 reads once for the
// maximum behind a Hadamard transform, then transforms again and writes both layouts; weights have
// no transform.
constexpr std::array<QuantiseRow, 6> quantise_rows{{
    {Fp8Recipe::none, Dtype::bf16, 0, 0},
    {Fp8Recipe::delayed, Dtype::fp8, 4, 4},
    {Fp8Recipe::current, Dtype::fp8, 6, 6},
    {Fp8Recipe::blockwise, Dtype::fp8_block, 4.4, 4.4},
    {Fp8Recipe::mxfp8, Dtype::mxfp8, 5, 5},
    {Fp8Recipe::nvfp4, Dtype::nvfp4, 11, 10},
}};

const QuantiseRow& row_of(Fp8Recipe recipe) {
  for (const QuantiseRow& row : quantise_rows)
    if (row.recipe == recipe) return row;
  return quantise_rows.front();
}

constexpr double sixteen_bits = 2;

}  // namespace

Dtype gemm_dtype(const Precision& p) {
  return p.fp8 == Fp8Recipe::none ? p.parameters : row_of(p.fp8).dtype;
}

double quantise_bytes(const Precision& p, Operand operand) {
  const QuantiseRow& row = row_of(p.fp8);
  return operand == Operand::weight ? row.weight : row.tensor;
}

double operand_bytes(const Precision& p) { return bytes_per_element(gemm_dtype(p)); }

double gathered_weight_bytes(const Precision& p) {
  // The buffer of MXFP8 parameters is that of the gradients: 16 bits travel, and every rank
  // quantises what it got (Megatron-Core distributed/param_and_grad_buffer.py).
  if (p.fp8 == Fp8Recipe::none || !p.fp8_param_gather || p.fp8 == Fp8Recipe::mxfp8)
    return sixteen_bits;
  return operand_bytes(p);
}

bool casts_weights(const Precision& p) {
  return p.fp8 != Fp8Recipe::none && (!p.fp8_param_gather || p.fp8 == Fp8Recipe::mxfp8);
}

double weight_bytes(const Precision& p) {
  if (p.fp8 == Fp8Recipe::none) return sixteen_bits;
  return 2 * operand_bytes(p) + (p.fp8_param_gather ? 0 : sixteen_bits);
}

}  // namespace stepsim
