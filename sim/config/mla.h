// Multi-latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values, and mostly
// queries too, go through a low-rank bottleneck. Names as in Hugging Face's DeepSeek config.
#pragma once

#include <cstdint>

namespace stepsim {

/// Sizes of latent attention. `kv_lora_rank` == 0: ordinary attention.
struct Mla {
  int64_t q_lora_rank = 0;  ///< 0 = queries are projected directly
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;  ///< part of a query/key head without position (qk_head_dim)
  int64_t qk_rope_head_dim = 0;  ///< rotated part, one for all key heads (qk_pos_emb_head_dim)
  int64_t v_head_dim = 0;

  bool present() const { return kv_lora_rank > 0; }
  int64_t qk_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

}  // namespace stepsim
