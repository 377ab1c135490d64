#include "sim/config/model.h"

namespace stepsim {
namespace {

int64_t norm_of(const Model& m, int64_t width) {
  return m.normalization == Normalization::layer_norm ? 2 * width : width;
}

/// fc1 and fc2 of one MLP of width `f` over `hidden` features.
int64_t mlp_parameters(const Model& m, int64_t hidden, int64_t f) {
  const int64_t fc1 = m.gated_mlp ? 2 * f : f;
  return hidden * fc1 + f * hidden + (m.linear_bias ? fc1 + hidden : 0);
}

/// Projections and the norms between them (DeepSeek-V2, arXiv 2405.04434, eq. 37-47).
int64_t latent_attention_parameters(const Model& m) {
  const Mla& a = m.mla;
  const int64_t h = m.hidden, q = m.heads * a.qk_dim(), v = m.heads * a.v_head_dim;
  int64_t count = h * (a.kv_lora_rank + a.qk_rope_head_dim) + norm_of(m, a.kv_lora_rank) +
                  a.kv_lora_rank * (m.heads * a.qk_nope_head_dim + v) + v * h;
  count +=
      a.q_lora_rank > 0 ? h * a.q_lora_rank + norm_of(m, a.q_lora_rank) + a.q_lora_rank * q : h * q;
  // Biases sit on the projections from and to the hidden state.
  if (m.qkv_bias) count += a.q_lora_rank + a.kv_lora_rank + a.qk_rope_head_dim;
  return count + (m.linear_bias ? h : 0);
}

int64_t attention_parameters(const Model& m) {
  const int64_t sinks = m.attention_sinks ? m.heads : 0;
  if (m.mla.present()) return latent_attention_parameters(m) + sinks;
  const int64_t h = m.hidden, q = m.heads * m.head_dim, kv = m.query_groups * m.head_dim;
  int64_t count = h * (q + 2 * kv + (m.attention_gate ? q : 0)) + q * h + sinks;
  if (m.linear_bias) count += h;
  if (m.qkv_bias || m.linear_bias) count += q + 2 * kv;
  if (m.qk_norm) count += m.qk_norm_whole ? q + kv : 2 * m.head_dim;
  return count;
}

/// Projections, convolution and its bias, A, D, dt bias, the gated norm.
int64_t mamba_parameters(const Model& m) {
  const Mamba& a = m.mamba;
  return m.hidden * (a.in_width() + a.inner()) + a.conv_width() * (a.conv + 1) + 3 * a.heads +
         a.inner();
}

/// Projections, convolution, A, dt bias, one norm over a value head.
int64_t delta_net_parameters(const Model& m) {
  const DeltaNet& d = m.delta_net;
  return m.hidden * (d.in_width() + d.values()) + d.conv_width() * d.conv + 2 * d.value_heads +
         d.value_dim;
}

int64_t mixer_parameters(const Model& m, Mixer mixer) {
  switch (mixer) {
    case Mixer::attention:
      return attention_parameters(m);
    case Mixer::mamba:
      return mamba_parameters(m);
    case Mixer::delta_net:
      return delta_net_parameters(m);
    case Mixer::none:
      return 0;
  }
  return 0;
}

/// Router, `experts` of the routed experts and the shared ones; the projections to and from the
/// width that the routed ones work in.
int64_t moe_parameters(const Model& m, int64_t experts) {
  const Moe& moe = m.moe;
  const int64_t router = moe.experts * (m.hidden + (m.linear_bias ? 1 : 0));
  const int64_t shared =
      moe.shared_ffn_hidden > 0 ? mlp_parameters(m, m.hidden, moe.shared_ffn_hidden) : 0;
  const int64_t width = moe.latent > 0 ? moe.latent : m.hidden;
  return router + experts * mlp_parameters(m, width, moe.ffn_hidden) + shared +
         2 * m.hidden * moe.latent + (moe.shared_gate ? m.hidden : 0);
}

int64_t layer_parameters(const Model& m, LayerShape shape, int64_t experts) {
  const int64_t parts =
      int{shape.mixer != Mixer::none} + int{shape.feed_forward != FeedForward::none};
  int64_t count =
      mixer_parameters(m, shape.mixer) + (m.post_norms ? 2 : 1) * parts * norm_of(m, m.hidden);
  if (shape.feed_forward == FeedForward::experts) count += moe_parameters(m, experts);
  if (shape.feed_forward == FeedForward::dense) count += mlp_parameters(m, m.hidden, m.ffn_hidden);
  return count;
}

int64_t count(const Model& m, int tp, int64_t experts) {
  const int64_t table = padded_vocab(m, tp) * m.hidden;
  int64_t total = norm_of(m, m.hidden) + (m.tied_embeddings ? table : 2 * table) +
                  (m.position == PositionEmbedding::learned ? m.max_positions * m.hidden : 0);
  for (int layer = 0; layer < m.layers; ++layer)
    total += layer_parameters(m, m.shape(layer), experts);
  return total;
}

}  // namespace

int64_t padded_vocab(const Model& model, int tp) {
  if (!model.vocab_padding) return model.vocab;
  // Megatron-Core vocab padding: the next multiple of make_vocab_size_divisible_by * TP.
  const int64_t multiple = int64_t{model.vocab_divisor} * tp;
  return (model.vocab + multiple - 1) / multiple * multiple;
}

int64_t parameter_count(const Model& model, int tp) { return count(model, tp, model.moe.experts); }

int64_t active_parameter_count(const Model& model, int tp) {
  return count(model, tp, model.moe.top_k);
}

int64_t layer_parameter_count(const Model& model, int layer) {
  return layer_parameters(model, model.shape(layer), model.moe.experts);
}

int64_t mtp_parameter_count(const Model& model) {
  // DeepSeek-V3, arXiv 2412.19437, section 2.2: two norms, a projection 2H -> H, a decoder layer
  // like the last one and a final norm.
  if (model.mtp_layers == 0) return 0;
  const int64_t h = model.hidden;
  int64_t layers = 0;
  for (const LayerShape shape : model.prediction_shapes())
    layers += layer_parameters(model, shape, model.moe.experts);
  return model.mtp_layers * (2 * h * h + 3 * norm_of(model, h) + layers);
}

}  // namespace stepsim
