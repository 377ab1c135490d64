// What a family's modelling code fixes without saying so in its config.json (Hugging Face
// transformers, src/transformers/models/*).
#pragma once

#include <span>
#include <string_view>

#include "sim/config/model.h"
#include "sim/config/reader.h"

namespace stepsim {

/// Which layers a `sliding_window` limits when the file has no `layer_types`.
enum class WindowRule {
  none,         ///< the key means nothing to this family
  all,          ///< every layer
  upper,        ///< layers from max_window_layers on, when use_sliding_window is true
  alternating,  ///< layers 0, 2, 4, ...
  chunked,      ///< attention_chunk_size, all but every no_rope_layer_interval-th (Llama 4)
};

/// One family, by `model_type` or by the class in `architectures`.
struct FamilyRow {
  std::string_view model_type, architecture;
  bool gated = true;
  Activation activation = Activation::silu;
  Normalization norm = Normalization::rms_norm;
  bool linear_bias = false, qkv_bias = false, qk_norm = false;
  PositionEmbedding position = PositionEmbedding::rope;
  bool tied = false;
  bool ffn_is_four_hidden = false;  ///< intermediate size may be left out
  int64_t positions = 0;            ///< rows of a learned table when the file does not say
  WindowRule window = WindowRule::none;
  bool experts = false;        ///< has MoE layers
  bool ffn_is_expert = false;  ///< intermediate_size is the width of one expert
  int shared_experts = 0;      ///< n_shared_experts when the file does not say
  bool expert_bias = false;    ///< unless topk_method says otherwise
  bool sigmoid_scores = false;
  int first_dense = 0;  ///< first_k_dense_replace when the file does not say
  bool latent = false;  ///< multi-latent attention
  bool qk_norm_whole = false, post_norms = false, parallel_residual = false, sinks = false;
  bool clamped_glu = false;   ///< swiglu_limit, whether or not the file says it
  bool pattern = false;       ///< hybrid_override_pattern says what each layer holds
  bool delta_layers = false;  ///< gated delta nets between layers of attention
  bool shared_gate = false;
};

std::span<const FamilyRow> families();
/// By model_type, else by architectures; refuses an unknown one with the nearest name.
const FamilyRow& family_of(const Reader& config);

}  // namespace stepsim
