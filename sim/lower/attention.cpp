// The attention half of a decoder layer: projections, rotation, core attention under context
// parallelism, output projection, residual.
#include "sim/lower/elementwise.h"
#include "sim/lower/linear.h"

namespace stepsim {

namespace {
constexpr double rope_bytes = 4;           ///< read and write q, k
constexpr double unfused_rope_passes = 4;  ///< slice, rotate, two multiplies, add, concatenate
constexpr double ring_correction_bytes =
    10;  ///< merge one ring step's output: fp32 read and write, 16-bit read
}  // namespace

void LayerTemplates::query_key_norms(TemplateWriter& w, double bytes) const {
  if (!s_.model.qk_norm) return;
  w.compute(OpKind::norm, kernels_.streaming({z_.tokens * z_.head_features * bytes}));
  w.compute(OpKind::norm, kernels_.streaming({z_.tokens * z_.kv_features * bytes}));
}

/// Passes over q and k that rotate them.
double LayerTemplates::rope_passes() const {
  if (s_.model.position != PositionEmbedding::rope) return 0;
  return s_.fused_rope ? 1 : unfused_rope_passes;
}

void LayerTemplates::context_ring(TemplateWriter& w, const Kernel& compute, Bytes message,
                                  Bytes correction) const {
  const int cp = s_.parallel.cp;
  const CollectiveCost hop =
      collective_cost(Collective::send_recv, message, groups_.cp, s_.cluster);
  const int32_t source = w.last_compute();
  int32_t arrived = TemplateOp::none;
  for (int i = 0; i < cp; ++i) {
    if (arrived != TemplateOp::none) w.wait(arrived);
    if (i + 1 < cp)
      arrived = w.communicate_after(arrived == TemplateOp::none ? source : arrived,
                                    OpKind::cp_exchange, Stream::cp, hop, i);
    Kernel step = compute / cp;
    step.blocks = compute.blocks;  // all queries, against a part of the keys
    w.compute(OpKind::attention, i > 0 ? step + kernels_.traffic(correction) : step, i);
  }
}

void LayerTemplates::attention_forward(TemplateWriter& w) const {
  const double batch = static_cast<double>(s_.batch.micro),
               sequence = static_cast<double>(s_.batch.sequence);
  const Attention a{batch,    z_.heads, z_.head_dim, sequence / s_.parallel.cp,
                    sequence, 0.5,      dtype(false)};
  const Kernel whole = kernels_.attention_forward(a);
  if (s_.parallel.cp == 1) {
    w.compute(OpKind::attention, whole);
    return;
  }
  context_ring(w, whole, {2 * z_.tokens * z_.kv_features * 2},
               {z_.tokens * z_.head_features * ring_correction_bytes});
}

void LayerTemplates::attention_backward(TemplateWriter& w) const {
  const double batch = static_cast<double>(s_.batch.micro),
               sequence = static_cast<double>(s_.batch.sequence);
  const int cp = s_.parallel.cp;
  const Attention a{batch, z_.heads, z_.head_dim, sequence / cp, sequence, 0.5, dtype(false)};
  const Kernel whole = kernels_.attention_backward(a);
  if (cp == 1) {
    w.compute(OpKind::attention, whole);
    return;
  }
  // Hop i runs beside step i. Hop 0 carries keys and values, the middle ones also the gradients
  // that step i-1 made, the last one gradients only; step i works on what hop i-1 brought.
  const Bytes block{2 * z_.tokens * z_.kv_features * 2};
  const auto hop = [&](double blocks) {
    return collective_cost(Collective::send_recv, block * blocks, groups_.cp, s_.cluster);
  };
  int32_t arrived = TemplateOp::none;
  for (int i = 0; i < cp; ++i) {
    const double blocks = i == 0 || i + 1 == cp ? 1 : 2;
    const int32_t next = w.communicate(OpKind::cp_exchange, Stream::cp, hop(blocks), i);
    if (arrived != TemplateOp::none) w.wait(arrived);
    Kernel step = whole / cp;
    step.blocks = whole.blocks;
    w.compute(OpKind::attention, step, i);
    arrived = next;
  }
  w.wait(arrived);
}

void LayerTemplates::attention_block_forward(TemplateWriter& w, LayerKind kind) const {
  const bool fp8 = kind.fp8;
  w.capture(s_.graph_attention);
  norm_forward(w);
  if (fp8) quantize(w, z_.local_tokens * z_.hidden);
  column_forward(
      w, {OpKind::qkv_gemm, z_.qkv(), TpGemm::qkv_fprop, TpGemm::qkv_dgrad, TpGemm::qkv_wgrad},
      fp8);
  if (s_.model.query_groups < s_.parallel.tp)
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp_cost(Collective::all_gather, z_.tokens * z_.qkv_features * s_.parallel.tp * 2));
  query_key_norms(w, norm_forward_bytes);
  if (rope_passes() > 0)
    w.compute(OpKind::rope, kernels_.streaming({z_.tokens * (z_.head_features + z_.kv_features) *
                                                rope_bytes * rope_passes()}));
  attention_forward(w);
  if (fp8) quantize(w, z_.tokens * z_.head_features);
  row_forward(w, {OpKind::proj_gemm, z_.proj(), TpGemm::proj_fprop, TpGemm::proj_dgrad}, fp8);
  residual_forward(w);
}

void LayerTemplates::attention_block_backward(TemplateWriter& w, LayerKind kind,
                                              const RecomputeModules& modules) const {
  const bool fp8 = kind.fp8;
  w.capture(s_.graph_attention);
  dropout_backward(w);
  row_backward(w, {OpKind::proj_gemm, z_.proj(), TpGemm::proj_fprop, TpGemm::proj_dgrad}, fp8);
  if (modules.core_attn) {
    w.set_pass(Pass::recompute);
    attention_forward(w);
    w.set_pass(Pass::backward);
  }
  attention_backward(w);
  // Rotation of dq and dk, and the copy that joins dq, dk, dv into one gradient.
  w.compute(OpKind::rope, kernels_.streaming({z_.tokens * ((z_.head_features + z_.kv_features) *
                                                               rope_bytes * rope_passes() +
                                                           z_.qkv_features * 4)}));
  query_key_norms(w, norm_backward_bytes);
  // The forward gathered every rank's slice of q, k and v: their gradients are summed and cut
  // again.
  if (s_.model.query_groups < s_.parallel.tp)
    w.exposed(
        OpKind::tp_reduce_scatter, Stream::tp,
        tp_cost(Collective::reduce_scatter, z_.tokens * z_.qkv_features * s_.parallel.tp * 2));
  if (fp8) quantize(w, z_.tokens * z_.qkv_features, Operand::gradient);
  column_backward(
      w, {OpKind::qkv_gemm, z_.qkv(), TpGemm::qkv_fprop, TpGemm::qkv_dgrad, TpGemm::qkv_wgrad},
      fp8);
  norm_backward(w);
}

}  // namespace stepsim
