#include "sim/cost/layer_sizes.h"

#include <algorithm>

#include "sim/cost/adapters.h"
#include "sim/cost/mixer_sizes.h"
#include "sim/cost/quantize.h"

namespace stepsim {

LayerSizes layer_sizes(const Scenario& s) {
  const Model& m = s.model;
  const double tp = s.parallel.tp;
  LayerSizes z;
  z.tokens = static_cast<double>(s.batch.sequence * s.batch.micro) / s.parallel.cp;
  z.local_tokens = s.parallel.sequence_parallel ? z.tokens / tp : z.tokens;
  z.hidden = static_cast<double>(m.hidden);
  z.head_dim = static_cast<double>(m.head_dim);
  z.heads = m.heads / tp;
  z.head_features = z.heads * z.head_dim;
  z.kv_features = std::max(1.0, m.query_groups / tp) * z.head_dim;
  // With fewer groups than TP the weight is still split evenly; its output is gathered and sliced.
  z.qkv_features =
      (m.heads * (m.attention_gate ? 2.0 : 1.0) + 2.0 * m.query_groups) * z.head_dim / tp;
  z.ffn = static_cast<double>(m.ffn_hidden) / tp;
  z.glu = m.gated_mlp ? 2 : 1;
  z.vocab = static_cast<double>(padded_vocab(m, s.parallel.tp)) / tp;
  return z;
}

namespace {

double log_sum_exp_bytes(const Scenario& s, const LayerSizes& z) {
  return s.cluster.stack.fused_attention ? z.tokens * z.heads * 4 : 0;
}

/// Bytes an element of a GEMM's input that its weight gradient needs: kept quantised; of a frozen
/// weight not at all.
double input_bytes(const Scenario& s, bool fp8) {
  if (s.adapters.present()) return 0;
  return fp8 ? operand_bytes(s.precision) : 2;
}

/// Attention of one layer: latents, q, k, v, output and log-sum-exp.
double attention_activation_bytes(const Scenario& s, const LayerSizes& z, double gemm_input) {
  double bytes = log_sum_exp_bytes(s, z);
  const double output = s.adapters.present() ? 2 : gemm_input;  // attention needs it, too
  if (!s.model.mla.present()) {
    bytes += z.tokens * (z.head_features + 2 * z.kv_features) * 2;
    bytes += z.tokens * z.head_features * output;
    // The inputs of the q and k norms are kept beside what the norms make of them.
    if (s.model.qk_norm) bytes += z.tokens * (z.head_features + z.kv_features) * 2;
    // The gate and what it scales, beside the product.
    if (s.model.attention_gate) bytes += z.tokens * z.head_features * 4;
    return bytes;
  }
  const Mla& a = s.model.mla;
  const auto q_rank = static_cast<double>(a.q_lora_rank),
             kv_rank = static_cast<double>(a.kv_lora_rank),
             rope = static_cast<double>(a.qk_rope_head_dim), qk = static_cast<double>(a.qk_dim()),
             v = static_cast<double>(a.v_head_dim);
  // Both latents before and after their norms; q, k and v unless they are projected again.
  bytes += z.local_tokens * ((q_rank + kv_rank) * (2 + gemm_input) + rope * 2);
  if (!s.recompute_modules.mla_up_proj) bytes += z.tokens * z.heads * (2 * qk + v) * 2;
  return bytes + z.tokens * z.heads * v * output;
}

/// fc1's output and the activation's, of an MLP of `width` features on this rank.
double mlp_activation_bytes(double tokens, double width, double glu, double gemm_input) {
  return tokens * width * (glu * 2 + gemm_input);
}

/// Routed and shared experts of one layer in balance: every rank works on local tokens x top-k.
/// Probabilities are applied inside the experts, so the combined output is not kept.
double expert_activation_bytes(const Scenario& s, const LayerSizes& z, double gemm_input) {
  const Moe& moe = s.model.moe;
  const RecomputeModules& again = s.recompute_modules;
  if (again.moe) return 0;
  const double copies = z.local_tokens * moe.top_k, width = static_cast<double>(moe.ffn_hidden);
  const double token = moe.latent > 0 ? static_cast<double>(moe.latent) : z.hidden;
  double bytes = copies * token * gemm_input * s.parallel.etp;  // permuted input of fc1
  if (moe.latent > 0) bytes += z.local_tokens * token * 2;      // input of the up projection
  bytes += copies * width * (z.glu * 2 + (again.moe_act ? 0 : gemm_input));
  bytes += copies * 4 + z.local_tokens * moe.experts * 4;  // probabilities, router scores
  if (moe.shared_ffn_hidden > 0 && !again.shared_experts)
    bytes += mlp_activation_bytes(
        z.tokens, static_cast<double>(moe.shared_ffn_hidden) / s.parallel.tp, z.glu, gemm_input);
  return bytes;
}

/// Mamba-2 (state-spaces mamba, ssd_combined.py, MambaSplitConv1dScanCombinedFn): the projected
/// features, the scan's output and out's input; convolution and states are made again.
double mamba_activation_bytes(const MixerSizes& m, double gemm_input) {
  return m.in.m * (m.in.n * 2 + m.out.k * (2 + gemm_input));
}

/// Gated delta net (flash-linear-attention, ChunkGatedDeltaRuleFunction): the projected features;
/// q and k of every value head, v and the inverse of every 64 x 64 block of a chunk; the scan's
/// output and out's input.
double delta_net_activation_bytes(const Scenario& s, const MixerSizes& m, double gemm_input) {
  constexpr double chunk = 64;
  const DeltaNet& d = s.model.delta_net;
  const double heads = static_cast<double>(d.value_heads) / s.parallel.tp;
  const double kept = m.in.n + heads * (2 * static_cast<double>(d.key_dim) + chunk) + m.out.k;
  const double gated = s.recompute_modules.gdn_norm_out ? 0 : gemm_input;
  return m.in.m * (kept * 2 + m.out.k * (2 + gated));
}

double mixer_activation_bytes(const Scenario& s, const LayerSizes& z, Mixer mixer,
                              double gemm_input) {
  switch (mixer) {
    case Mixer::attention:
      return attention_activation_bytes(s, z, gemm_input) +
             (s.recompute_modules.core_attn ? 0 : score_bytes(s));
    case Mixer::mamba:
      return mamba_activation_bytes(mixer_sizes(s, z, mixer), gemm_input);
    case Mixer::delta_net:
      return delta_net_activation_bytes(s, mixer_sizes(s, z, mixer), gemm_input);
    case Mixer::none:
      break;
  }
  return 0;
}

}  // namespace

double layer_activation_bytes(const Scenario& s, int layer, bool fp8) {
  return layer_activation_bytes(s, s.model.shape(layer), fp8);
}

double layer_activation_bytes(const Scenario& s, LayerShape shape, bool fp8) {
  const LayerSizes z = layer_sizes(s);
  const double gemm_input = input_bytes(s, fp8);
  const double sharded = z.local_tokens * z.hidden;
  const RecomputeModules& again = s.recompute_modules;
  // Of each half: the residual input, behind a post norm what it made, a dropout mask, the norm's
  // output. Only a norm that is a module of its own can be recomputed; the MLP's goes with it.
  const double half =
      sharded * (2 * (s.model.post_norms ? 2.0 : 1.0) + (s.model.hidden_dropout ? 1 : 0));
  const double normed = sharded * gemm_input;
  double bytes = 0;
  if (shape.mixer != Mixer::none) {
    const bool latent = shape.mixer == Mixer::attention && s.model.mla.present();
    bytes += half + mixer_activation_bytes(s, z, shape.mixer, gemm_input);
    if (!(again.layernorm && latent)) bytes += normed;
  }
  if (shape.feed_forward == FeedForward::experts)
    bytes += half + expert_activation_bytes(s, z, gemm_input) + (again.layernorm ? 0 : normed);
  if (shape.feed_forward == FeedForward::dense)
    bytes +=
        half + (again.mlp ? 0 : normed + mlp_activation_bytes(z.tokens, z.ffn, z.glu, gemm_input));
  if (s.adapters.present()) bytes += adapter_activation_bytes(s, z, shape, !again.mlp);
  return bytes;
}

double mlp_bytes(const Scenario& s, int layer, bool fp8) {
  if (s.model.shape(layer).feed_forward != FeedForward::dense) return 0;
  const LayerSizes z = layer_sizes(s);
  const double gemm_input = input_bytes(s, fp8);
  return z.local_tokens * z.hidden * gemm_input +
         mlp_activation_bytes(z.tokens, z.ffn, z.glu, gemm_input);
}

double score_bytes(const Scenario& s) {
  if (s.cluster.stack.fused_attention) return 0;
  // Korthikanti et al. 2022, eq. 2: 5as/h.
  const LayerSizes z = layer_sizes(s);
  return z.tokens * static_cast<double>(s.batch.sequence) * z.heads * 5;
}

double input_half_bytes(const Scenario& s, LayerShape shape) {
  const LayerSizes z = layer_sizes(s);
  const double mask = s.model.hidden_dropout ? z.local_tokens * z.hidden : 0;
  double bytes = shape.mixer != Mixer::none ? mask : 0;
  if (shape.feed_forward != FeedForward::none) bytes += mask;
  if (shape.mixer == Mixer::attention)
    bytes += log_sum_exp_bytes(s, z) + (s.recompute_modules.core_attn ? 0 : score_bytes(s));
  return bytes;
}

double weight_half_share(const Scenario& s) {
  if (s.recompute != Recompute::modules) return 1;
  double kept = 0, freed = 0;
  for (int i = 0; i < s.model.layers; ++i) {
    kept += layer_activation_bytes(s, i, false);
    freed += input_half_bytes(s, s.model.shape(i));
  }
  return kept > 0 ? std::max(0.0, 1 - freed / kept) : 1;
}

}  // namespace stepsim
