#include "sim/cost/model_flops.h"

namespace stepsim {

namespace {

/// Forward FLOPs per token of one decoder layer, GEMMs and causal attention apart.
struct LayerFlops {
  double gemms = 0, attention = 0;
  double mlp = 0;  ///< of gemms
};

LayerFlops layer_flops(const Scenario& s) {
  const Model& m = s.model;
  const double h = static_cast<double>(m.hidden), f = static_cast<double>(m.ffn_hidden);
  const double q = static_cast<double>(m.heads * m.head_dim);
  const double kv = static_cast<double>(m.query_groups * m.head_dim);
  const double g = m.gated_mlp ? 3 : 2;
  return {.gemms = 2 * (h * (q + 2 * kv) + q * h + h * f * g),
          .attention = 2 * q * static_cast<double>(s.batch.sequence),
          .mlp = 2 * h * f * g};
}

double tokens(const Scenario& s) { return static_cast<double>(s.batch.global * s.batch.sequence); }

}  // namespace

Flops model_flops(const Scenario& s) {
  const LayerFlops layer = layer_flops(s);
  const double head = 2 * static_cast<double>(s.model.hidden) *
                      static_cast<double>(padded_vocab(s.model, s.parallel.tp));
  return {3 * tokens(s) * (s.model.layers * (layer.gemms + layer.attention) + head)};
}

Flops hardware_flops(const Scenario& s, int recomputed_layers) {
  const LayerFlops layer = layer_flops(s);
  // Forward FLOPs per token executed a second time.
  double again = recomputed_layers * (layer.gemms + layer.attention);
  if (s.recompute_modules.core_attn) again += s.model.layers * layer.attention;
  if (s.recompute_modules.mlp) again += s.model.layers * layer.mlp;
  return model_flops(s) + Flops{tokens(s) * again};
}

}  // namespace stepsim
