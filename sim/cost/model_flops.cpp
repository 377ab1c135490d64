#include "sim/cost/model_flops.h"

#include <numeric>
#include <vector>

namespace stepsim {

namespace {

/// Multiply-adds a token of one layer's forward pass.
struct LayerWork {
  double gemms = 0;      ///< all but core attention, with what follows
  double attention = 0;  ///< core attention
  double mlp = 0, experts = 0, shared = 0, up_projections = 0;

  double all() const { return gemms + attention; }
};

class Counter {
 public:
  Counter(const Scenario& s, FlopConvention convention)
      : m_(s.model),
        sequence_(static_cast<double>(s.batch.sequence)),
        mean_square_(s.batch.squares() / s.batch.tokens()),
        convention_(convention) {}

  LayerWork layer(LayerShape shape, bool windowed) const {
    LayerWork work = mixer(shape.mixer, windowed);
    if (shape.feed_forward == FeedForward::dense) {
      work.mlp = mlp(hidden(), static_cast<double>(m_.ffn_hidden));
      work.gemms += work.mlp;
    }
    if (shape.feed_forward == FeedForward::experts) {
      work.shared = mlp(hidden(), static_cast<double>(m_.moe.shared_ffn_hidden));
      work.experts = routed() + work.shared;
      work.gemms += work.experts;
    }
    return work;
  }
  LayerWork layer(int i) const {
    const SlidingWindow& window = m_.window;
    return layer(m_.shape(i), window.tokens > 0 && window.layers[static_cast<size_t>(i)]);
  }

  /// One depth of multi-token prediction without its logits: three norms, the projection 2H -> H,
  /// its layers.
  double prediction() const {
    double work = 0;
    for (const LayerShape shape : m_.prediction_shapes()) work += layer(shape, false).all();
    // Hybrid models count the layers of the block and nothing around them.
    if (m_.mtp_pattern.empty() || m_.delta_net.present())
      work += 3 * hidden() + 2 * hidden() * hidden();
    return work;
  }

 private:
  double hidden() const { return static_cast<double>(m_.hidden); }

  double mlp(double in, double width) const {
    const bool gated =
        m_.gated_mlp && (!convention_.before_0_5 || m_.activation == Activation::silu);
    return in * width * (gated ? 3 : 2);
  }
  double routed() const {
    const double latent = static_cast<double>(m_.moe.latent);
    const double in = latent > 0 ? latent : hidden();
    return m_.moe.top_k * mlp(in, static_cast<double>(m_.moe.ffn_hidden)) + 2 * hidden() * latent;
  }

  /// Keys that a query meets in the mean.
  double context(bool windowed) const {
    const double w = static_cast<double>(m_.window.tokens);
    if (!windowed || convention_.before_0_5 || w >= sequence_) return mean_square_ / 2;
    return w - w * (w - 1) / (2 * sequence_);
  }

  LayerWork mixer(Mixer mixer, bool windowed) const {
    switch (mixer) {
      case Mixer::attention:
        return m_.mla.present() ? latent_attention() : attention(windowed);
      case Mixer::mamba: {
        // The inner width is taken to be 2H, whatever the heads make of it.
        const Mamba& a = m_.mamba;
        const double inner = 2 * hidden(), state = static_cast<double>(a.state);
        const double in =
            2 * inner + 2 * static_cast<double>(a.groups) * state + static_cast<double>(a.heads);
        return {.gemms = hidden() * in + 3.5 * inner * state + inner * hidden()};
      }
      case Mixer::delta_net: {
        const DeltaNet& d = m_.delta_net;
        const double rule = 4 * static_cast<double>(d.value_heads * d.value_dim * d.value_dim);
        return {.gemms = hidden() * static_cast<double>(d.in_width() + d.values()) +
                         static_cast<double>(d.conv * d.conv_width()) + rule};
      }
      case Mixer::none:
        return {};
    }
    return {};
  }

  LayerWork attention(bool windowed) const {
    const double q = static_cast<double>(m_.heads * m_.head_dim),
                 kv = static_cast<double>(m_.query_groups * m_.head_dim);
    return {.gemms = hidden() * ((m_.attention_gate ? 2 : 1) * q + 2 * kv) + q * hidden(),
            .attention = 2 * q * context(windowed)};
  }

  LayerWork latent_attention() const {
    const Mla& a = m_.mla;
    const double heads = m_.heads, qk = static_cast<double>(a.qk_dim()),
                 v = static_cast<double>(a.v_head_dim), q_rank = static_cast<double>(a.q_lora_rank),
                 kv_rank = static_cast<double>(a.kv_lora_rank);
    const double q_up = q_rank > 0 ? q_rank * heads * qk : 0,
                 kv_up = kv_rank * heads * (static_cast<double>(a.qk_nope_head_dim) + v);
    // The ones are the norms of the latents.
    const double query = q_rank > 0 ? q_rank * (hidden() + 1) + q_up : hidden() * heads * qk;
    return {.gemms = query + kv_rank * (hidden() + 1) + kv_up +
                     hidden() * static_cast<double>(a.qk_rope_head_dim) + heads * v * hidden(),
            .attention = mean_square_ / 2 * heads * (qk + v),
            .up_projections = q_up + kv_up};
  }

  const Model& m_;
  double sequence_, mean_square_;
  FlopConvention convention_;
};

}  // namespace

Flops model_flops(const Scenario& s, FlopConvention convention) {
  const Model& m = s.model;
  const Counter counter(s, convention);
  double gemms = 0, attention = 0;
  for (int i = 0; i < m.layers; ++i) {
    const LayerWork work = counter.layer(i);
    gemms += work.gemms;
    attention += work.attention;
  }
  gemms += m.mtp_layers * counter.prediction();
  gemms += (1 + m.mtp_layers) * static_cast<double>(m.hidden) *
           static_cast<double>(padded_vocab(m, s.parallel.tp));
  const double tokens = s.batch.tokens();
  if (convention.adapters || s.adapters.present())
    return {4 * tokens * gemms +
            12.0 * m.layers * static_cast<double>(m.hidden) * s.batch.squares()};
  return {6 * tokens * (gemms + attention)};
}

Flops hardware_flops(const Scenario& s, std::span<const int> recomputed_layers) {
  const Counter counter(s, {});
  double again = 0;
  for (const int layer : recomputed_layers) again += counter.layer(layer).all();
  const RecomputeModules& modules = s.recompute_modules;
  for (int i = 0; i < s.model.layers; ++i) {
    const LayerWork work = counter.layer(i);
    if (modules.core_attn) again += work.attention;
    if (modules.mlp) again += work.mlp;
    if (modules.moe) again += work.experts;
    if (modules.shared_experts && !modules.moe) again += work.shared;
    if (modules.mla_up_proj) again += work.up_projections;
  }
  return model_flops(s) + Flops{2 * s.batch.tokens() * again};
}

Flops hardware_flops(const Scenario& s, int recomputed_layers) {
  std::vector<int> all(static_cast<size_t>(s.model.layers));
  std::iota(all.begin(), all.end(), 0);
  const Flops modules = hardware_flops(s, std::span<const int>{});
  const Flops whole = hardware_flops(s, all) - modules;
  return modules + whole * (static_cast<double>(recomputed_layers) / s.model.layers);
}

}  // namespace stepsim
