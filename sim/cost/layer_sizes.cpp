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

std::vector<int64_t> layer_parameters(const Model& m, int tp) {
  const int64_t norm = m.hidden * (m.normalization == Normalization::layer_norm ? 2 : 1);
  const int64_t heads = m.heads * m.head_dim / tp;
  const int64_t qkv = (m.heads + 2 * m.query_groups) * m.head_dim / tp;
  const int64_t ffn = m.ffn_hidden / tp, fc1 = ffn * (m.gated_mlp ? 2 : 1);
  std::vector<int64_t> p{m.hidden * heads};
  if (m.linear_bias) p.push_back(m.hidden);
  p.push_back(norm);
  p.push_back(qkv * m.hidden);
  if (m.qkv_bias || m.linear_bias) p.push_back(qkv);
  if (m.qk_norm) p.push_back(m.qk_norm_whole ? heads + (qkv - heads) / 2 : 2 * m.head_dim);
  if (m.attention_sinks) p.push_back(m.heads / tp);
  if (m.post_norms) p.push_back(norm);
  p.push_back(norm);
  p.push_back(fc1 * m.hidden);
  if (m.linear_bias) p.push_back(fc1);
  p.push_back(m.hidden * ffn);
  if (m.linear_bias) p.push_back(m.hidden);
  if (m.post_norms) p.push_back(norm);
  return p;
}

std::vector<int64_t> embedding_parameters(const Model& m, int tp) {
  std::vector<int64_t> p{padded_vocab(m, tp) / tp * m.hidden};
  if (m.position == PositionEmbedding::learned) p.push_back(m.max_positions * m.hidden);
  return p;
}

std::vector<int64_t> head_parameters(const Model& m, int tp, bool output_weight) {
  std::vector<int64_t> p{m.hidden * (m.normalization == Normalization::layer_norm ? 2 : 1)};
  if (output_weight) p.push_back(padded_vocab(m, tp) / tp * m.hidden);
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
  if (!s.cluster.stack.fused_attention && s.recompute != Recompute::core_attention) {
    // Softmax output, dropout mask and dropout output of every score (Korthikanti et al. 2022, eq.
    // 2: 5as/h).
    const double keys = static_cast<double>(s.batch.sequence);
    bytes += z.tokens * keys * z.heads * 5;
  }
  return bytes;
}

}  // namespace stepsim
