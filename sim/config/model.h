// A dense decoder transformer as its Hugging Face config.json describes it.
#pragma once

#include <cstdint>
#include <string>

namespace stepsim {

/// MLP non-linearity between fc1 and fc2.
enum class Activation { gelu, silu, relu, squared_relu };
enum class Normalization { rms_norm, layer_norm };
enum class PositionEmbedding { rope, learned, alibi };

/// Sizes of one decoder model. Counts are per model, before any sharding.
struct Model {
  std::string name;
  int layers = 0;
  int64_t hidden = 0;
  int64_t ffn_hidden = 0;
  int heads = 0;
  int query_groups = 0;   ///< key/value heads; == heads for MHA, 1 for MQA
  int64_t head_dim = 0;   ///< need not be hidden / heads
  int64_t vocab = 0;      ///< before padding
  bool gated_mlp = true;  ///< fc1 makes two halves (SwiGLU-like)
  bool tied_embeddings = false;
  bool linear_bias = false;  ///< biases on proj, fc1, fc2
  bool qkv_bias = false;
  bool qk_norm = false;
  bool hidden_dropout = false;
  bool vocab_padding = true;  ///< pad to a multiple of vocab_divisor * TP
  int vocab_divisor = 128;
  Activation activation = Activation::silu;
  Normalization normalization = Normalization::rms_norm;
  PositionEmbedding position = PositionEmbedding::rope;
  int64_t max_positions = 0;  ///< rows of a learned position table, else 0
};

/// Vocabulary rows after padding to a multiple of `vocab_divisor * tp` (Megatron-Core vocab
/// padding).
int64_t padded_vocab(const Model& model, int tp);
/// Parameters of the whole model, padded vocabulary, tied embedding counted once.
int64_t parameter_count(const Model& model, int tp);

}  // namespace stepsim
