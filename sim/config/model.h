// A decoder transformer as its Hugging Face config.json describes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/config/hybrid.h"
#include "sim/config/mla.h"
#include "sim/config/moe.h"
#include "sim/config/starting_layout.h"

namespace stepsim {

/// MLP non-linearity between fc1 and fc2.
enum class Activation { gelu, silu, relu, squared_relu };
enum class Normalization { rms_norm, layer_norm };
enum class PositionEmbedding { rope, learned, alibi };

/// Attention that sees only the last `tokens` keys. `tokens` == 0: no layer is limited.
struct SlidingWindow {
  int64_t tokens = 0;
  bool chunked = false;        ///< the sequence is cut into chunks, each causal in itself (Llama 4)
  std::vector<bool> layers{};  ///< one a decoder layer: is it limited
};

/// Sizes of one decoder model. Counts are per model, before any sharding.
struct Model {
  std::string name;
  int layers = 0;
  int64_t hidden = 0;
  int64_t ffn_hidden = 0;  ///< of the dense layers
  int heads = 0;
  int query_groups = 0;   ///< key/value heads; == heads for MHA, 1 for MQA
  int64_t head_dim = 0;   ///< need not be hidden / heads; with MLA that of a query
  int64_t vocab = 0;      ///< before padding
  bool gated_mlp = true;  ///< fc1 makes two halves (SwiGLU-like)
  bool tied_embeddings = false;
  bool linear_bias = false;  ///< biases on proj, fc1, fc2 (and a MoE router)
  bool qkv_bias = false;
  bool qk_norm = false;
  bool qk_norm_whole = false;      ///< one norm over all heads, not one over each (OLMoE)
  bool post_norms = false;         ///< norms behind attention and MLP too (Gemma 2, GLM-4)
  bool parallel_residual = false;  ///< attention and MLP read the same input (GPT-NeoX)
  bool attention_sinks = false;    ///< a learnt softmax offset per head (GPT-OSS)
  bool clamped_glu = false;        ///< gate and linear half are clamped first (GPT-OSS)
  bool attention_gate = false;     ///< a gate as wide as the queries scales the output (Qwen3-Next)
  bool hidden_dropout = false;
  bool vocab_padding = true;  ///< pad to a multiple of vocab_divisor * TP
  int vocab_divisor = 128;
  Activation activation = Activation::silu;
  Normalization normalization = Normalization::rms_norm;
  PositionEmbedding position = PositionEmbedding::rope;
  int64_t max_positions = 0;  ///< rows of a learned position table, else 0
  Moe moe{};
  Mla mla{};
  SlidingWindow window{};
  int mtp_layers = 0;                     ///< multi-token prediction depths (mtp_num_layers)
  std::vector<LayerShape> hybrid{};       ///< one a layer; empty: attention and feed-forward in all
  std::vector<LayerShape> mtp_pattern{};  ///< layers of one depth; empty: one like the last layer
  Mamba mamba{};
  DeltaNet delta_net{};
  /// What changes the time of a step and is not simulated: phrases of sim/config/model_gaps.h.
  std::vector<std::string> not_simulated{};

  LayerShape shape(int layer) const {
    if (!hybrid.empty()) return hybrid[static_cast<size_t>(layer)];
    return {Mixer::attention, moe.at(layer) ? FeedForward::experts : FeedForward::dense};
  }
  /// Layers of one multi-token prediction depth.
  std::vector<LayerShape> prediction_shapes() const {
    if (!mtp_pattern.empty()) return mtp_pattern;
    return {shape(layers - 1)};
  }
  StartingLayout starting_layout{};
};

/// Vocabulary rows after padding to a multiple of `vocab_divisor * tp` (Megatron-Core vocab
/// padding).
int64_t padded_vocab(const Model& model, int tp);
/// Trainable parameters of the whole model without its MTP modules, padded vocabulary, tied
/// embedding counted once. A router's score bias is a buffer and does not count.
int64_t parameter_count(const Model& model, int tp);
/// Those that one token meets: of the routed experts only the top k.
int64_t active_parameter_count(const Model& model, int tp);
/// Those of decoder layer `layer`.
int64_t layer_parameter_count(const Model& model, int layer);
/// Those of all MTP modules; they share the embedding and the output layer.
int64_t mtp_parameter_count(const Model& model);

}  // namespace stepsim
