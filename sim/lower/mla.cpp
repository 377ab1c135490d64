// Multi-latent attention's way to q, k and v: replicated down projections of this rank's tokens,
// norms and gathers of the narrow latents, column-parallel up projections, rotation. Order after
// Megatron-Core's transformer/multi_latent_attention.py.
#include "sim/lower/elementwise.h"
#include "sim/lower/linear.h"

namespace stepsim {

/// Sizes of one rank's latents.
struct LayerTemplates::Latents {
  double q_rank, kv_rank, rope;  ///< features
  double queries, up;            ///< of the up projections: heads x (dn + dr), heads x (dn + dv)
  double keys, rotated, values;  ///< features of k, of q's rotated part and of v
  Linear q_down, kv_down;        ///< `q_down`: unused without a query latent
  Linear q_up, kv_up;            ///< `q_up`: straight from the hidden state without one

  bool compresses_queries() const { return q_rank > 0; }
};

namespace {
/// Of q's rotated part, in place, by the fused kernel; four more passes without.
constexpr double latent_rope_bytes = 4;
constexpr double latent_rope_passes = 4;
constexpr double latent_copy_bytes = 4;  ///< read and write
}  // namespace

LayerTemplates::Latents LayerTemplates::latents() const {
  const Mla& a = s_.model.mla;
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  const double qk = d(a.qk_dim()), up = d(a.qk_nope_head_dim + a.v_head_dim);
  const double local = z_.local_tokens, q = z_.heads * qk;
  const double q_input = a.q_lora_rank > 0 ? d(a.q_lora_rank) : z_.hidden;
  // Userbuffers are off with latent attention: the methods of these linears are all `none`.
  const auto linear = [](OpKind op, const Gemm& gemm) {
    return Linear{op, gemm, TpGemm::qkv_fprop, TpGemm::qkv_dgrad, TpGemm::qkv_wgrad};
  };
  return {.q_rank = d(a.q_lora_rank),
          .kv_rank = d(a.kv_lora_rank),
          .rope = d(a.qk_rope_head_dim),
          .queries = q,
          .up = z_.heads * up,
          .keys = q,
          .rotated = z_.heads * d(a.qk_rope_head_dim),
          .values = z_.heads * d(a.v_head_dim),
          .q_down = linear(OpKind::q_down_gemm, {local, d(a.q_lora_rank), z_.hidden}),
          .kv_down = linear(OpKind::kv_down_gemm,
                            {local, d(a.kv_lora_rank + a.qk_rope_head_dim), z_.hidden}),
          .q_up = linear(OpKind::q_up_gemm, {z_.tokens, q, q_input}),
          .kv_up = linear(OpKind::kv_up_gemm, {z_.tokens, z_.heads * up, d(a.kv_lora_rank)})};
}

double LayerTemplates::attention_weights() const {
  const auto weights = [](const Gemm& g) { return g.n * g.k; };
  const double out = weights(projection());
  if (!s_.model.mla.present()) return weights(z_.qkv()) + out;
  const Latents l = latents();
  return weights(l.q_down.gemm) + weights(l.kv_down.gemm) + weights(l.q_up.gemm) +
         weights(l.kv_up.gemm) + out;
}

/// The norm of a latent belongs to its up projection, as LayerNormLinear's does.
void LayerTemplates::latent_norm(TemplateWriter& w, double rank, double bytes, int margin) const {
  w.compute(OpKind::norm, kernels_.persistent({z_.local_tokens * rank * bytes}, margin));
}

void LayerTemplates::latent_rope(TemplateWriter& w, const Latents& l) const {
  // q's rotated part; keys and values are cut out of one tensor and written whole, the rotated key
  // copied to every head.
  const double split = l.up + l.rope + l.keys + l.values;
  if (s_.fused_rope) {
    w.compute(OpKind::rope, kernels_.streaming({z_.tokens * l.rotated * latent_rope_bytes}));
    w.compute(OpKind::rope, kernels_.streaming({z_.tokens * split * 2}));
    return;
  }
  w.compute(OpKind::rope,
            kernels_.streaming(
                {z_.tokens * ((l.rotated + l.rope) * latent_rope_bytes * latent_rope_passes +
                              (l.queries + l.keys + l.values) * latent_copy_bytes)}));
}

void LayerTemplates::latents_forward(TemplateWriter& w, bool fp8) const {
  const Latents l = latents();
  const auto replicated = [&](const Linear& down) {
    if (fp8) quantize(w, down.gemm.m * down.gemm.k);
    w.compute(down.op, kernels_.gemm(down.gemm, dtype(fp8)));
  };
  norm_forward(w);
  if (l.compresses_queries()) replicated(l.q_down);
  replicated(l.kv_down);
  if (gathers())
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp_cost(Collective::all_gather, z_.tokens * l.rope * 2));
  up_projections_forward(w, fp8);
}

/// What recompute_modules mla_up_proj runs again: the gather of the rotated key stays outside.
void LayerTemplates::up_projections_forward(TemplateWriter& w, bool fp8) const {
  const Latents l = latents();
  const int margin = s_.launch_env.norm_margin_forward;
  if (l.compresses_queries()) latent_norm(w, l.q_rank, norm_forward_bytes, margin);
  if (fp8) quantize(w, z_.local_tokens * l.q_up.gemm.k);
  column_forward(w, l.q_up, fp8);
  latent_norm(w, l.kv_rank, norm_forward_bytes, margin);
  if (fp8) quantize(w, z_.local_tokens * l.kv_rank);
  column_forward(w, l.kv_up, fp8);
  latent_rope(w, l);
}

void LayerTemplates::latents_backward(TemplateWriter& w, bool fp8) const {
  const Latents l = latents();
  const int margin = s_.launch_env.norm_margin_backward;
  latent_rope(w, l);
  const auto up = [&](const Linear& linear, double rank) {
    if (fp8) quantize(w, linear.gemm.m * linear.gemm.n, Operand::gradient);
    column_backward(w, linear, fp8);
    if (rank > 0) latent_norm(w, rank, norm_backward_bytes, margin);
  };
  const auto replicated = [&](const Linear& down) {
    if (fp8) quantize(w, down.gemm.m * down.gemm.n, Operand::gradient);
    w.set_pass(Pass::backward_data);
    w.compute(down.op, kernels_.gemm(dgrad(down.gemm), dtype(fp8)));
    w.set_pass(Pass::backward_weight);
    w.weight(down.op, weight_gradient(down.gemm, dtype(fp8)));
    w.set_pass(Pass::backward);
  };
  up(l.kv_up, l.kv_rank);
  up(l.q_up, l.q_rank);
  if (gathers())
    w.exposed(OpKind::tp_reduce_scatter, Stream::tp,
              tp_cost(Collective::reduce_scatter, z_.tokens * l.rope * 2));
  replicated(l.kv_down);
  if (l.compresses_queries()) replicated(l.q_down);
  // The normed input went two ways: their gradients are added.
  w.compute(OpKind::residual, kernels_.streaming({z_.local_tokens * z_.hidden * residual_bytes}));
  norm_backward(w);
}

}  // namespace stepsim
