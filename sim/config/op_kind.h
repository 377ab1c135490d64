// Kinds of operations, as ledger, critical path and traces name them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace stepsim {
/// Ledger class of a task.
enum class TaskClass : uint8_t { compute, optimizer, communication, host, marker };
/// Communication classes of DESIGN section 8; `none` for everything else.
enum class CommClass : uint8_t { none, tp, cp, pp, dp, embedding, ep, edp, offload };
inline constexpr int comm_class_count = 9;
std::string_view name(CommClass c);

// clang-format off
/// Kernels and operations; names and classes: `op_rows`.
enum class OpKind : uint8_t {
  given,  // a stage's whole forward or backward with a given time
  embedding, norm, qkv_gemm, rope, attention, proj_gemm, residual, fc1_gemm, activation, fc2_gemm,
  q_down_gemm, kv_down_gemm, q_up_gemm, kv_up_gemm,
  router, permute, unpermute, expert_fc1, expert_activation, expert_fc2, expert_bias,
  shared_fc1, shared_activation, shared_fc2, latent_gemm,
  mtp_projection, mamba_in, mamba_conv, mamba_scan, mamba_out, adapter_gemm,
  output_gemm, cross_entropy, quantize, grad_accumulate, reduce_chunks,
  zero_grad, grad_norm, grad_scale, adam, param_copy,
  tp_all_gather, tp_reduce_scatter, tp_all_reduce, tp_exchange,
  cp_exchange, cp_all_gather, cp_reduce_scatter, cp_all_to_all, pp_forward, pp_backward,
  ep_counts, ep_dispatch, ep_combine, etp_all_gather, etp_reduce_scatter, router_all_reduce,
  dp_reduce_scatter, dp_all_gather, dp_all_reduce, embedding_all_reduce, norm_all_reduce,
  edp_reduce_scatter, edp_all_gather, edp_all_reduce, offload_out, offload_in,
  arrive, meet, launch, step_overhead, sync, delay,  // injected by cluster.faults
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
    {OpKind::q_down_gemm, "q down gemm", TaskClass::compute, CommClass::none},
    {OpKind::kv_down_gemm, "kv down gemm", TaskClass::compute, CommClass::none},
    {OpKind::q_up_gemm, "q up gemm", TaskClass::compute, CommClass::none},
    {OpKind::kv_up_gemm, "kv up gemm", TaskClass::compute, CommClass::none},
    {OpKind::router, "router", TaskClass::compute, CommClass::none},
    {OpKind::permute, "permute", TaskClass::compute, CommClass::none},
    {OpKind::unpermute, "unpermute", TaskClass::compute, CommClass::none},
    {OpKind::expert_fc1, "expert fc1", TaskClass::compute, CommClass::none},
    {OpKind::expert_activation, "expert activation", TaskClass::compute, CommClass::none},
    {OpKind::expert_fc2, "expert fc2", TaskClass::compute, CommClass::none},
    {OpKind::expert_bias, "expert bias", TaskClass::compute, CommClass::none},
    {OpKind::shared_fc1, "shared expert fc1", TaskClass::compute, CommClass::none},
    {OpKind::shared_activation, "shared expert activation", TaskClass::compute, CommClass::none},
    {OpKind::shared_fc2, "shared expert fc2", TaskClass::compute, CommClass::none},
    {OpKind::latent_gemm, "expert latent gemm", TaskClass::compute, CommClass::none},
    {OpKind::mtp_projection, "mtp projection", TaskClass::compute, CommClass::none},
    {OpKind::mamba_in, "mamba in gemm", TaskClass::compute, CommClass::none},
    {OpKind::mamba_conv, "mamba conv", TaskClass::compute, CommClass::none},
    {OpKind::mamba_scan, "mamba scan", TaskClass::compute, CommClass::none},
    {OpKind::mamba_out, "mamba out gemm", TaskClass::compute, CommClass::none},
    {OpKind::adapter_gemm, "adapter gemm", TaskClass::compute, CommClass::none},
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
    {OpKind::cp_all_gather, "cp all-gather", TaskClass::communication, CommClass::cp},
    {OpKind::cp_reduce_scatter, "cp reduce-scatter", TaskClass::communication, CommClass::cp},
    {OpKind::cp_all_to_all, "cp all-to-all", TaskClass::communication, CommClass::cp},
    {OpKind::pp_forward, "pp forward", TaskClass::communication, CommClass::pp},
    {OpKind::pp_backward, "pp backward", TaskClass::communication, CommClass::pp},
    {OpKind::ep_counts, "ep token counts", TaskClass::communication, CommClass::ep},
    {OpKind::ep_dispatch, "ep dispatch", TaskClass::communication, CommClass::ep},
    {OpKind::ep_combine, "ep combine", TaskClass::communication, CommClass::ep},
    {OpKind::etp_all_gather, "etp all-gather", TaskClass::communication, CommClass::ep},
    {OpKind::etp_reduce_scatter, "etp reduce-scatter", TaskClass::communication, CommClass::ep},
    {OpKind::router_all_reduce, "router all-reduce", TaskClass::communication, CommClass::tp},
    {OpKind::dp_reduce_scatter, "dp reduce-scatter", TaskClass::communication, CommClass::dp},
    {OpKind::dp_all_gather, "dp all-gather", TaskClass::communication, CommClass::dp},
    {OpKind::dp_all_reduce, "dp all-reduce", TaskClass::communication, CommClass::dp},
    {OpKind::embedding_all_reduce, "embedding all-reduce", TaskClass::communication, CommClass::embedding},
    {OpKind::norm_all_reduce, "norm all-reduce", TaskClass::communication, CommClass::dp},
    {OpKind::edp_reduce_scatter, "edp reduce-scatter", TaskClass::communication, CommClass::edp},
    {OpKind::edp_all_gather, "edp all-gather", TaskClass::communication, CommClass::edp},
    {OpKind::edp_all_reduce, "edp all-reduce", TaskClass::communication, CommClass::edp},
    {OpKind::offload_out, "offload to host", TaskClass::communication, CommClass::offload},
    {OpKind::offload_in, "reload from host", TaskClass::communication, CommClass::offload},
    {OpKind::arrive, "arrive", TaskClass::marker, CommClass::none},
    {OpKind::meet, "meet", TaskClass::marker, CommClass::none},
    {OpKind::launch, "launch", TaskClass::host, CommClass::none},
    {OpKind::step_overhead, "step overhead", TaskClass::host, CommClass::none},
    {OpKind::sync, "device sync", TaskClass::host, CommClass::none},
    {OpKind::delay, "injected delay", TaskClass::compute, CommClass::none},
}};
// clang-format on
constexpr const OpRow& row(OpKind op) { return op_rows[static_cast<size_t>(op)]; }

}  // namespace stepsim
