#include "sim/cost/layer_sizes.h"

#include <algorithm>

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
  z.qkv_features = (m.heads + 2.0 * m.query_groups) * z.head_dim / tp;
  z.ffn = static_cast<double>(m.ffn_hidden) / tp;
  z.glu = m.gated_mlp ? 2 : 1;
  z.vocab = static_cast<double>(padded_vocab(m, s.parallel.tp)) / tp;
  return z;
}

namespace {
int64_t norm_elements(const Model& m) {
  return m.hidden * (m.normalization == Normalization::layer_norm ? 2 : 1);
}
}  // namespace

std::vector<ParameterTensor> layer_parameters(const Model& m, int tp) {
  const int64_t norm = norm_elements(m);
  const int64_t heads = m.heads * m.head_dim / tp;
  const int64_t qkv = (m.heads + 2 * m.query_groups) * m.head_dim / tp;
  const int64_t ffn = m.ffn_hidden / tp, fc1 = ffn * (m.gated_mlp ? 2 : 1);
  std::vector<ParameterTensor> p;
  const auto weight = [&](int64_t n) { p.push_back({.elements = n, .gemm_weight = true}); };
  const auto bias = [&](int64_t n) { p.push_back({.elements = n}); };
  const auto replicated = [&](int64_t n) { p.push_back({.elements = n, .replicated = true}); };
  weight(m.hidden * heads);
  if (m.linear_bias) replicated(m.hidden);
  replicated(norm);
  weight(qkv * m.hidden);
  if (m.qkv_bias || m.linear_bias) bias(qkv);
  if (m.qk_norm) replicated(m.qk_norm_whole ? heads + (qkv - heads) / 2 : 2 * m.head_dim);
  if (m.attention_sinks) bias(m.heads / tp);
  if (m.post_norms) replicated(norm);
  replicated(norm);
  weight(fc1 * m.hidden);
  if (m.linear_bias) bias(fc1);
  weight(m.hidden * ffn);
  if (m.linear_bias) replicated(m.hidden);
  if (m.post_norms) replicated(norm);
  return p;
}

std::vector<ParameterTensor> embedding_parameters(const Model& m, int tp) {
  std::vector<ParameterTensor> p{{.elements = padded_vocab(m, tp) / tp * m.hidden}};
  if (m.position == PositionEmbedding::learned)
    p.push_back({.elements = m.max_positions * m.hidden});
  return p;
}

std::vector<ParameterTensor> head_parameters(const Model& m, int tp, bool output_weight) {
  std::vector<ParameterTensor> p{{.elements = norm_elements(m), .replicated = true}};
  if (output_weight) p.push_back({.elements = padded_vocab(m, tp) / tp * m.hidden});
  return p;
}

double layer_activation_bytes(const Scenario& s, bool fp8) {
  const LayerSizes z = layer_sizes(s);
  const double gemm_input = fp8 ? 1 : 2;  // saved GEMM inputs are kept quantised
  const double sharded = z.local_tokens * z.hidden;
  double bytes = sharded * (2 * 2.0 + 2 * gemm_input);            // residual inputs, norm outputs
  bytes += z.tokens * (z.head_features + 2 * z.kv_features) * 2;  // q, k, v
  bytes += z.tokens * z.head_features * gemm_input + z.tokens * z.heads * 4;  // output, log-sum-exp
  bytes += z.tokens * z.ffn * (z.glu * 2 + gemm_input);  // fc1 output, activation output
  if (s.model.hidden_dropout) bytes += sharded * 2;
  // The inputs of the q and k norms are kept beside what the norms make of them.
  if (s.model.qk_norm) bytes += z.tokens * (z.head_features + z.kv_features) * 2;
  if (s.recompute != Recompute::core_attention) bytes += score_bytes(s);
  return bytes;
}

double score_bytes(const Scenario& s) {
  if (s.cluster.stack.fused_attention) return 0;
  // Korthikanti et al. 2022, eq. 2: 5as/h.
  const LayerSizes z = layer_sizes(s);
  return z.tokens * static_cast<double>(s.batch.sequence) * z.heads * 5;
}

}  // namespace stepsim
