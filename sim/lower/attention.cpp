// The attention half of a decoder layer: projections, rotation, output projection, residual. Core
// attention under context parallelism: sim/lower/context.cpp.
#include "sim/lower/elementwise.h"
#include "sim/lower/linear.h"

namespace stepsim {

namespace {
constexpr double rope_bytes = 4;  ///< read and write q, k
/// Of the output's sigmoid gate: read both, write one; read both and the gradient, write two.
constexpr double gate_forward_bytes = 6, gate_backward_bytes = 10;
constexpr double unfused_rope_passes = 4;  ///< slice, rotate, two multiplies, add, concatenate

/// Passes over q and k that rotate them.
double rope_passes(const Scenario& s) {
  if (s.model.position != PositionEmbedding::rope) return 0;
  return s.fused_rope ? 1 : unfused_rope_passes;
}
}  // namespace

void LayerTemplates::query_key_norms(TemplateWriter& w, double bytes) const {
  if (!s_.model.qk_norm) return;
  w.compute(OpKind::norm, kernels_.streaming({z_.tokens * z_.head_features * bytes}));
  w.compute(OpKind::norm, kernels_.streaming({z_.tokens * z_.kv_features * bytes}));
}

/// Norm to rotated q, k and v.
void LayerTemplates::projections_forward(TemplateWriter& w, bool fp8) const {
  norm_forward(w);
  if (fp8) quantize(w, z_.local_tokens * z_.hidden);
  column_forward(
      w, {OpKind::qkv_gemm, z_.qkv(), TpGemm::qkv_fprop, TpGemm::qkv_dgrad, TpGemm::qkv_wgrad},
      fp8);
  if (s_.model.query_groups < s_.parallel.tp)
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp_cost(Collective::all_gather, z_.tokens * z_.qkv_features * s_.parallel.tp * 2));
  query_key_norms(w, norm_forward_bytes);
  if (rope_passes(s_) > 0)
    w.compute(OpKind::rope, kernels_.streaming({z_.tokens * (z_.head_features + z_.kv_features) *
                                                rope_bytes * rope_passes(s_)}));
}

void LayerTemplates::projections_backward(TemplateWriter& w, bool fp8) const {
  // Rotation of dq and dk, and the copy that joins dq, dk, dv into one gradient.
  w.compute(OpKind::rope, kernels_.streaming({z_.tokens * ((z_.head_features + z_.kv_features) *
                                                               rope_bytes * rope_passes(s_) +
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

Gemm LayerTemplates::projection() const {
  if (!s_.model.mla.present()) return z_.proj();
  return {z_.tokens, z_.hidden, z_.heads * static_cast<double>(s_.model.mla.v_head_dim)};
}

void LayerTemplates::attention_block_forward(TemplateWriter& w, LayerKind kind) const {
  const bool fp8 = kind.fp8;
  const Gemm out = projection();
  w.capture(s_.graph_attention);
  s_.model.mla.present() ? latents_forward(w, fp8) : projections_forward(w, fp8);
  core_attention(kind).forward(w);
  if (s_.model.attention_gate)
    w.compute(OpKind::activation, kernels_.streaming({out.m * out.k * gate_forward_bytes}));
  if (fp8) quantize(w, out.m * out.k);
  row_forward(w, {OpKind::proj_gemm, out, TpGemm::proj_fprop, TpGemm::proj_dgrad}, fp8);
  if (!one_sum()) residual_forward(w);
}

void LayerTemplates::attention_block_backward(TemplateWriter& w, LayerKind kind,
                                              RecomputeModules modules) const {
  const bool fp8 = kind.fp8, latent = s_.model.mla.present();
  const Gemm out = projection();
  w.capture(s_.graph_attention);
  // Each module runs again when the gradient of what its output went into is there
  // (Megatron-Core transformer_layer.py, multi_latent_attention.py).
  dropout_backward(w);
  if (modules.layernorm && latent) {
    w.set_pass(Pass::recompute);
    norm_forward(w);
    w.set_pass(Pass::backward);
  }
  row_backward(w, {OpKind::proj_gemm, out, TpGemm::proj_fprop, TpGemm::proj_dgrad}, fp8);
  if (s_.model.attention_gate)
    w.compute(OpKind::activation, kernels_.streaming({out.m * out.k * gate_backward_bytes}));
  w.set_pass(Pass::recompute);
  if (modules.mla_up_proj && latent) up_projections_forward(w, fp8);
  if (modules.core_attn) core_attention(kind).forward(w);
  w.set_pass(Pass::backward);
  core_attention(kind).backward(w);
  latent ? latents_backward(w, fp8) : projections_backward(w, fp8);
}

}  // namespace stepsim
