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
  void mlp(int64_t width);
  void experts();
  std::vector<ParameterTensor> take() { return std::move(list_); }

 private:
  const Model& m_;
  Sharding s_;
  std::vector<ParameterTensor> list_;
};

void Tensors::attention() {
  const int64_t heads = m_.heads * m_.head_dim / s_.tp;
  const int64_t qkv = (m_.heads + 2 * m_.query_groups) * m_.head_dim / s_.tp;
  weight(m_.hidden * heads);
  if (m_.linear_bias) replicated(m_.hidden);
  norm(m_.hidden);
  weight(qkv * m_.hidden);
  if (m_.qkv_bias || m_.linear_bias) bias(qkv);
  if (m_.qk_norm) replicated(m_.qk_norm_whole ? heads + (qkv - heads) / 2 : 2 * m_.head_dim);
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
  for (int e = 0; e < moe.experts / s_.ep; ++e)
    for (const int64_t n : {fc1 * m_.hidden, m_.linear_bias ? fc1 : 0, m_.hidden * ffn,
                            m_.linear_bias ? m_.hidden : 0})
      if (n > 0)
        list_.push_back({.elements = n, .gemm_weight = true, .replicated = false, .expert = true});
  if (moe.shared_ffn_hidden > 0) mlp(moe.shared_ffn_hidden);
  if (moe.shared_gate) replicated(m_.hidden);
}

}  // namespace

std::vector<ParameterTensor> layer_parameters(const Model& m, int layer, Sharding s) {
  Tensors t(m, s);
  m.mla.present() ? t.latent_attention() : t.attention();
  if (m.post_norms) t.norm(m.hidden);
  t.norm(m.hidden);
  m.moe.at(layer) ? t.experts() : t.mlp(m.ffn_hidden);
  if (m.post_norms) t.norm(m.hidden);
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
  std::vector<ParameterTensor> all = t.take();
  for (const ParameterTensor& p : layer_parameters(m, m.layers - 1, s)) all.push_back(p);
  Tensors last(m, s);
  last.norm(m.hidden);
  for (const ParameterTensor& p : last.take()) all.push_back(p);
  return all;
}

}  // namespace stepsim
