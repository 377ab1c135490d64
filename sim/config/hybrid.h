// Decoders whose layers differ: state-space, gated-delta and attention layers in one stack. Names
// as in Hugging Face's Nemotron-H and Qwen3-Next configs.
#pragma once

#include <cstdint>

namespace stepsim {

/// What mixes tokens in a layer.
enum class Mixer { attention, mamba, delta_net, none };
enum class FeedForward { dense, experts, none };
/// One layer: each part has a norm and a residual of its own.
struct LayerShape {
  Mixer mixer = Mixer::attention;
  FeedForward feed_forward = FeedForward::dense;
  bool operator==(const LayerShape&) const = default;
};

/// Mamba-2 mixer (Dao and Gu, arXiv 2405.21060). `heads` == 0: the model has none.
struct Mamba {
  int64_t heads = 0, head_dim = 0;
  int64_t groups = 0, state = 0;  ///< heads of a group share B and C, `state` numbers each
  int64_t conv = 4;               ///< taps of the causal convolution

  bool present() const { return heads > 0; }
  int64_t inner() const { return heads * head_dim; }
  int64_t conv_width() const { return inner() + 2 * groups * state; }  ///< x, B and C
  int64_t in_width() const { return inner() + conv_width() + heads; }  ///< and gate, dt
};

/// Gated delta net (Yang et al., arXiv 2412.06464). `value_heads` == 0: the model has none.
struct DeltaNet {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int64_t conv = 4;

  bool present() const { return value_heads > 0; }
  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t conv_width() const { return 2 * keys() + values(); }                    ///< q, k, v
  int64_t in_width() const { return conv_width() + values() + 2 * value_heads; }  ///< gate, beta, a
};

}  // namespace stepsim
