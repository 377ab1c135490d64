#include "sim/config/model.h"

namespace stepsim {

int64_t padded_vocab(const Model& model, int tp) {
  if (!model.vocab_padding) return model.vocab;
  // Megatron-Core vocab padding: the next multiple of make_vocab_size_divisible_by * TP.
  const int64_t multiple = int64_t{model.vocab_divisor} * tp;
  return (model.vocab + multiple - 1) / multiple * multiple;
}

int64_t parameter_count(const Model& model, int tp) {
  const int64_t h = model.hidden, f = model.ffn_hidden;
  const int64_t q = model.heads * model.head_dim, kv = model.query_groups * model.head_dim;
  const int64_t norm = model.normalization == Normalization::layer_norm ? 2 * h : h;
  const int64_t fc1_width = model.gated_mlp ? 2 * f : f;
  int64_t layer = h * (q + 2 * kv) + q * h + h * fc1_width + f * h + 2 * norm;
  if (model.linear_bias) layer += h + fc1_width + h;
  if (model.qkv_bias || model.linear_bias) layer += q + 2 * kv;
  if (model.qk_norm) layer += 2 * model.head_dim;
  const int64_t table = padded_vocab(model, tp) * h;
  return model.layers * layer + norm + (model.tied_embeddings ? table : 2 * table) +
         (model.position == PositionEmbedding::learned ? model.max_positions * h : 0);
}

}  // namespace stepsim
