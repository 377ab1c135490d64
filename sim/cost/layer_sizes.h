// Tensor and weight sizes of one decoder layer, the embedding and the head on one rank.
// Shapes after Transformer Engine's linear modules; symbols as in the Megatron papers.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/cost/kernel.h"

namespace stepsim {

/// Everything is per rank and per microbatch. Features are already divided by TP.
struct LayerSizes {
  double tokens = 0;        ///< s*b/CP
  double local_tokens = 0;  ///< tokens/TP under sequence parallelism, else tokens
  double hidden = 0;
  double qkv_features = 0;   ///< (heads + 2 groups) * head_dim / TP
  double head_features = 0;  ///< heads * head_dim / TP
  double kv_features = 0;    ///< groups * head_dim / TP, at least one group
  double ffn = 0;            ///< ffn_hidden / TP
  double glu = 1;            ///< 2 when gated
  double vocab = 0;          ///< padded vocabulary / TP
  double heads = 0, head_dim = 0;

  Gemm qkv() const { return {tokens, qkv_features, hidden}; }
  Gemm proj() const { return {tokens, hidden, head_features}; }
  Gemm fc1() const { return {tokens, glu * ffn, hidden}; }
  Gemm fc2() const { return {tokens, hidden, ffn}; }
  Gemm output() const { return {tokens, vocab, hidden}; }
};
LayerSizes layer_sizes(const Scenario& scenario);

/// dX = dY W^T and dW = X^T dY of a forward GEMM.
constexpr Gemm dgrad(const Gemm& g) { return {g.m, g.k, g.n, g.batch}; }
constexpr Gemm wgrad(const Gemm& g) { return {g.n, g.k, g.m, g.batch}; }

/// Bytes of activations that decoder layer `layer` keeps for its backward, without the modules that
/// recompute_modules names (Transformer Engine, flash attention).
double layer_activation_bytes(const Scenario& scenario, int layer, bool fp8);
double layer_activation_bytes(const Scenario& scenario, LayerShape shape, bool fp8);
/// Bytes inside the dense MLP of decoder layer `layer`, from its norm's output to fc2's input:
/// kept, or held while recompute_modules mlp runs it again. 0 where the layer has none.
double mlp_bytes(const Scenario& scenario, int layer, bool fp8);
/// Of one layer's scores, when attention materialises them (softmax, mask and dropout output), kept
/// or recomputed.
double score_bytes(const Scenario& scenario);
/// Of what a layer keeps, what the input half of its backward frees because only it reads it:
/// scores, dropout masks, log-sum-exps. All else is an input of some linear module, or makes room
/// for the gradient of one's output, which is as large (Qi et al. 2023, arXiv 2401.10241, table 1:
/// of 34h + 5as the weight half needs 32h).
double input_half_bytes(const Scenario& scenario, LayerShape shape);
/// Share of a microbatch's activations that the weight half still needs. 1 without a model, and
/// where whole layers are recomputed.
double weight_half_share(const Scenario& scenario);

}  // namespace stepsim
