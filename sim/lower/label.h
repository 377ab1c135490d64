// What a task of the graph is in the language of training. The engine carries it as an opaque
// 64-bit word.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/lower/stream.h"

namespace stepsim {

/// Ledger class of a task.
enum class TaskClass : uint8_t { compute, optimizer, communication, host, marker };
/// Communication classes of DESIGN section 8; `none` for everything else.
enum class CommClass : uint8_t { none, tp, cp, pp, dp, embedding };
inline constexpr int comm_class_count = 6;
std::string_view name(CommClass c);

// clang-format off
/// Kernel and operation kinds; their names and classes are the table `op_rows`.
enum class OpKind : uint8_t {
  given,  // a stage's whole forward or backward with a given time
  embedding, norm, qkv_gemm, rope, attention, proj_gemm, residual, fc1_gemm, activation, fc2_gemm,
  output_gemm, cross_entropy, quantize, grad_accumulate, reduce_chunks,
  zero_grad, grad_norm, grad_scale, adam, param_copy,
  tp_all_gather, tp_reduce_scatter, tp_all_reduce, tp_exchange,
  cp_exchange,
  pp_forward, pp_backward,
  dp_reduce_scatter, dp_all_gather, dp_all_reduce, embedding_all_reduce, norm_all_reduce,
  arrive, meet, launch, step_overhead, sync,
  delay,  // injected by cluster.faults
  count
};

struct OpRow {
  OpKind op;
  std::string_view name;  ///< as printed in traces
  TaskClass task_class;
  CommClass comm;
};
inline constexpr std::array<OpRow, static_cast<size_t>(OpKind::count)> op_rows{{
    {OpKind::given, "stage", TaskClass::compute, CommClass::none},
    {OpKind::embedding, "embedding", TaskClass::compute, CommClass::none},
    {OpKind::norm, "norm", TaskClass::compute, CommClass::none},
    {OpKind::qkv_gemm, "qkv gemm", TaskClass::compute, CommClass::none},
    {OpKind::rope, "rope", TaskClass::compute, CommClass::none},
    {OpKind::attention, "attention", TaskClass::compute, CommClass::none},
    {OpKind::proj_gemm, "proj gemm", TaskClass::compute, CommClass::none},
    {OpKind::residual, "residual add", TaskClass::compute, CommClass::none},
    {OpKind::fc1_gemm, "fc1 gemm", TaskClass::compute, CommClass::none},
    {OpKind::activation, "activation", TaskClass::compute, CommClass::none},
    {OpKind::fc2_gemm, "fc2 gemm", TaskClass::compute, CommClass::none},
    {OpKind::output_gemm, "output gemm", TaskClass::compute, CommClass::none},
    {OpKind::cross_entropy, "cross entropy", TaskClass::compute, CommClass::none},
    {OpKind::quantize, "quantize", TaskClass::compute, CommClass::none},
    {OpKind::grad_accumulate, "gradient accumulate", TaskClass::compute, CommClass::none},
    {OpKind::reduce_chunks, "reduce chunks", TaskClass::compute, CommClass::none},
    {OpKind::zero_grad, "zero gradients", TaskClass::optimizer, CommClass::none},
    {OpKind::grad_norm, "gradient norm", TaskClass::optimizer, CommClass::none},
    {OpKind::grad_scale, "gradient scale", TaskClass::optimizer, CommClass::none},
    {OpKind::adam, "adam", TaskClass::optimizer, CommClass::none},
    {OpKind::param_copy, "copy to model parameters", TaskClass::optimizer, CommClass::none},
    {OpKind::tp_all_gather, "tp all-gather", TaskClass::communication, CommClass::tp},
    {OpKind::tp_reduce_scatter, "tp reduce-scatter", TaskClass::communication, CommClass::tp},
    {OpKind::tp_all_reduce, "tp all-reduce", TaskClass::communication, CommClass::tp},
    {OpKind::tp_exchange, "tp exchange", TaskClass::communication, CommClass::tp},
    {OpKind::cp_exchange, "cp exchange", TaskClass::communication, CommClass::cp},
    {OpKind::pp_forward, "pp forward", TaskClass::communication, CommClass::pp},
    {OpKind::pp_backward, "pp backward", TaskClass::communication, CommClass::pp},
    {OpKind::dp_reduce_scatter, "dp reduce-scatter", TaskClass::communication, CommClass::dp},
    {OpKind::dp_all_gather, "dp all-gather", TaskClass::communication, CommClass::dp},
    {OpKind::dp_all_reduce, "dp all-reduce", TaskClass::communication, CommClass::dp},
    {OpKind::embedding_all_reduce, "embedding all-reduce", TaskClass::communication, CommClass::embedding},
    {OpKind::norm_all_reduce, "norm all-reduce", TaskClass::communication, CommClass::dp},
    {OpKind::arrive, "arrive", TaskClass::marker, CommClass::none},
    {OpKind::meet, "meet", TaskClass::marker, CommClass::none},
    {OpKind::launch, "launch", TaskClass::host, CommClass::none},
    {OpKind::step_overhead, "step overhead", TaskClass::host, CommClass::none},
    {OpKind::sync, "device sync", TaskClass::host, CommClass::none},
    {OpKind::delay, "injected delay", TaskClass::compute, CommClass::none},
}};
// clang-format on
constexpr const OpRow& row(OpKind op) { return op_rows[static_cast<size_t>(op)]; }

/// Which part of the step a task belongs to.
enum class Pass : uint8_t { forward, backward_data, backward_weight, recompute, backward, step };
std::string_view name(Pass p);

/// Packed into the graph's 64-bit labels.
struct Label {
  OpKind op = OpKind::given;
  Pass pass = Pass::forward;
  uint8_t chunk = 0;        ///< model chunk on its rank
  uint8_t part = 0;         ///< ring step, split or bucket number (saturated)
  uint16_t layer = 0;       ///< global layer number; no_layer for embedding, head, optimizer
  uint16_t microbatch = 0;  ///< saturated at 65534; no_microbatch outside the pipeline

  static constexpr uint16_t no_layer = UINT16_MAX, no_microbatch = UINT16_MAX;
  constexpr uint64_t packed() const { return std::bit_cast<uint64_t>(*this); }
  static constexpr Label unpack(uint64_t word) { return std::bit_cast<Label>(word); }
};
static_assert(sizeof(Label) == 8);
constexpr uint8_t saturated_part(size_t part) {
  return static_cast<uint8_t>(part < UINT8_MAX ? part : UINT8_MAX);
}
constexpr uint16_t saturated_microbatch(int microbatch) {
  return static_cast<uint16_t>(microbatch < UINT16_MAX ? microbatch : UINT16_MAX - 1);
}

/// "fc1 gemm forward L12 mb3", for traces and messages.
std::string describe(Label label);

}  // namespace stepsim
