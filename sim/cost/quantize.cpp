#include "sim/cost/quantize.h"

#include <array>

namespace stepsim {

namespace {

/// One recipe. Bytes an element of the passes that quantise it.
struct QuantizeRow {
  Fp8Recipe recipe;
  double tensor, weight;
};
// Bytes are those that the kernel's measured time is worth at the sustained memory bandwidth of its
// GPU (hardware/gpus), where there is a measurement: tests/cost/quantize_test.cpp. Per-tensor
// scaling reads 16 bits and writes two layouts of one byte; current scaling reads once more for the
// maximum. Blocks: the same pass writes both layouts and their scales. NVFP4 reads once for the
// maximum behind a Hadamard transform, then transforms again and writes both layouts; weights have
// no transform.
constexpr std::array<QuantizeRow, 6> quantize_rows{{
    {Fp8Recipe::none, 0, 0},
    {Fp8Recipe::delayed, 4, 4},
    {Fp8Recipe::current, 6, 6},
    {Fp8Recipe::blockwise, 4.4, 4.4},
    {Fp8Recipe::mxfp8, 5, 5},
    {Fp8Recipe::nvfp4, 11, 10},
}};

const QuantizeRow& row_of(Fp8Recipe recipe) {
  for (const QuantizeRow& row : quantize_rows)
    if (row.recipe == recipe) return row;
  return quantize_rows.front();
}

constexpr double sixteen_bits = 2;
/// Attention takes one layout of per-tensor FP8; both of MXFP8, each head in one piece: a pass that
/// reads and writes 16 bits in another order (Transformer Engine PR 2719).
constexpr double other_layout_bytes = 1, mxfp8_order_bytes = 4;

}  // namespace

double quantize_bytes(const Precision& p, Operand operand, bool frozen) {
  const QuantizeRow& row = row_of(p.fp8);
  if (operand == Operand::weight) return row.weight;
  return frozen && p.fp8 != Fp8Recipe::none ? row.tensor - operand_bytes(p) : row.tensor;
}

Dtype attention_dtype(const Precision& p, const Device& device) {
  const bool blackwell = device.architecture == "blackwell";
  if (!p.fp8_attention) return p.parameters;
  if (p.fp8 == Fp8Recipe::delayed || (p.fp8 == Fp8Recipe::current && blackwell)) return Dtype::fp8;
  return p.fp8 == Fp8Recipe::mxfp8 && blackwell ? Dtype::mxfp8 : p.parameters;
}

double attention_cast_bytes(const Precision& p, const Device& device) {
  const Dtype dtype = attention_dtype(p, device);
  if (dtype == p.parameters) return 0;
  return dtype == Dtype::mxfp8 ? mxfp8_order_bytes + row_of(p.fp8).tensor
                               : row_of(p.fp8).tensor - other_layout_bytes;
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
