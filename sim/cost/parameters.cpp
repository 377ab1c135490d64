#include "sim/cost/parameters.h"

namespace stepsim {

namespace {

/// Collects tensors of one module.
class Tensors {
 public:
  Tensors(const Model& model, Sharding sharding) : m_(model), s_(sharding) {}

  void weight(int64_t n) { list_.push_back({.elements = n, .gemm_weight = true}); }
  void bias(int64_t n) { list_.push_back({.elements = n}); }
  void replicated(int64_t n) { list_.push_back({.elements = n, .replicated = true}); }
  void norm(int64_t width) {
    replicated(m_.normalization == Normalization::layer_norm ? 2 * width : width);
  }
  /// A weight that every TP rank holds whole (the down projections of latent attention).
  void whole_weight(int64_t n) {
    list_.push_back({.elements = n, .gemm_weight = true, .replicated = true});
  }

  void attention();
  void latent_attention();
  void mamba();
  void delta_net();
  void mlp(int64_t width);
  void experts();
  void mixer(Mixer mixer);
  void layer(LayerShape shape);
  std::vector<ParameterTensor> take() { return std::move(list_); }

 private:
  const Model& m_;
  Sharding s_;
  std::vector<ParameterTensor> list_;
};

void Tensors::attention() {
  const int64_t heads = m_.heads * m_.head_dim / s_.tp;
  const int64_t gate = m_.attention_gate ? m_.heads : 0;
  const int64_t qkv = (m_.heads + gate + 2 * m_.query_groups) * m_.head_dim / s_.tp;
  weight(m_.hidden * heads);
  if (m_.linear_bias) replicated(m_.hidden);
  norm(m_.hidden);
  weight(qkv * m_.hidden);
  if (m_.qkv_bias || m_.linear_bias) bias(qkv);
  const int64_t keys = m_.query_groups * m_.head_dim / s_.tp;
  if (m_.qk_norm) replicated(m_.qk_norm_whole ? heads + keys : 2 * m_.head_dim);
  if (m_.attention_sinks) bias(m_.heads / s_.tp);
}

void Tensors::latent_attention() {
  const Mla& a = m_.mla;
  const int64_t heads = m_.heads / s_.tp;
  norm(m_.hidden);
  weight(heads * a.v_head_dim * m_.hidden);
  if (m_.linear_bias) replicated(m_.hidden);
  if (a.q_lora_rank > 0) {
    whole_weight(m_.hidden * a.q_lora_rank);
    norm(a.q_lora_rank);
    weight(a.q_lora_rank * heads * a.qk_dim());
  } else {
    weight(m_.hidden * heads * a.qk_dim());
  }
  whole_weight(m_.hidden * (a.kv_lora_rank + a.qk_rope_head_dim));
  norm(a.kv_lora_rank);
  weight(a.kv_lora_rank * heads * (a.qk_nope_head_dim + a.v_head_dim));
  if (m_.qkv_bias) replicated(a.q_lora_rank + a.kv_lora_rank + a.qk_rope_head_dim);
  if (m_.attention_sinks) bias(heads);
}

// Megatron-Core ssm/mamba_mixer.py: heads and groups are cut.
void Tensors::mamba() {
  const Mamba& a = m_.mamba;
  const int64_t heads = a.heads / s_.tp, inner = a.inner() / s_.tp, conv = a.conv_width() / s_.tp;
  norm(m_.hidden);
  weight(m_.hidden * (a.in_width() / s_.tp));
  bias(conv * (a.conv + 1));
  bias(3 * heads);
  bias(inner);
  weight(inner * m_.hidden);
}

// Megatron-Core ssm/gated_delta_net.py.
void Tensors::delta_net() {
  const DeltaNet& d = m_.delta_net;
  norm(m_.hidden);
  weight(m_.hidden * (d.in_width() / s_.tp));
  bias(d.conv_width() / s_.tp * d.conv);
  bias(2 * d.value_heads / s_.tp);
  replicated(d.value_dim);
  weight(d.values() / s_.tp * m_.hidden);
}

void Tensors::mixer(Mixer mixer) {
  switch (mixer) {
    case Mixer::attention:
      m_.mla.present() ? latent_attention() : attention();
      break;
    case Mixer::mamba:
      mamba();
      break;
    case Mixer::delta_net:
      delta_net();
      break;
    case Mixer::none:
      return;
  }
  if (m_.post_norms) norm(m_.hidden);
}

void Tensors::layer(LayerShape shape) {
  mixer(shape.mixer);
  if (shape.feed_forward == FeedForward::none) return;
  norm(m_.hidden);
  shape.feed_forward == FeedForward::experts ? experts() : mlp(m_.ffn_hidden);
  if (m_.post_norms) norm(m_.hidden);
}

void Tensors::mlp(int64_t width) {
  const int64_t ffn = width / s_.tp, fc1 = ffn * (m_.gated_mlp ? 2 : 1);
  weight(fc1 * m_.hidden);
  if (m_.linear_bias) bias(fc1);
  weight(m_.hidden * ffn);
  if (m_.linear_bias) replicated(m_.hidden);
}

void Tensors::experts() {
  const Moe& moe = m_.moe;
  replicated(moe.experts * (m_.hidden + (m_.linear_bias ? 1 : 0)));  // router
  const int64_t ffn = moe.ffn_hidden / s_.etp, fc1 = ffn * (m_.gated_mlp ? 2 : 1);
  const int64_t width = moe.latent > 0 ? moe.latent : m_.hidden;
  if (moe.latent > 0) {
    whole_weight(m_.hidden * moe.latent);
    whole_weight(moe.latent * m_.hidden);
  }
  for (int e = 0; e < moe.experts / s_.ep; ++e)
    for (const int64_t n :
         {fc1 * width, m_.linear_bias ? fc1 : 0, width * ffn, m_.linear_bias ? width : 0})
      if (n > 0)
        list_.push_back({.elements = n, .gemm_weight = true, .replicated = false, .expert = true});
  if (moe.shared_ffn_hidden > 0) mlp(moe.shared_ffn_hidden);
  if (moe.shared_gate) replicated(m_.hidden);
}

}  // namespace

std::vector<ParameterTensor> layer_parameters(const Model& m, int layer, Sharding s) {
  Tensors t(m, s);
  t.layer(m.shape(layer));
  return t.take();
}

std::vector<ParameterTensor> embedding_parameters(const Model& m, int tp) {
  Tensors t(m, {.tp = tp});
  t.bias(padded_vocab(m, tp) / tp * m.hidden);
  if (m.position == PositionEmbedding::learned) t.bias(m.max_positions * m.hidden);
  return t.take();
}

std::vector<ParameterTensor> head_parameters(const Model& m, int tp, bool output_weight) {
  Tensors t(m, {.tp = tp});
  t.norm(m.hidden);
  if (output_weight) t.bias(padded_vocab(m, tp) / tp * m.hidden);
  return t.take();
}

std::vector<ParameterTensor> prediction_parameters(const Model& m, Sharding s) {
  Tensors t(m, s);
  t.norm(m.hidden);
  t.norm(m.hidden);
  t.weight(2 * m.hidden * m.hidden / s.tp);
  for (const LayerShape shape : m.prediction_shapes()) t.layer(shape);
  t.norm(m.hidden);
  return t.take();
}

}  // namespace stepsim
