#include "sim/lower/layer.h"

#include "sim/lower/elementwise.h"
#include "sim/lower/linear.h"
#include "sim/lower/memory.h"

namespace stepsim {

LayerTemplates::LayerTemplates(const Scenario& scenario, const LayerGroups& groups, double slowdown)
    : s_(scenario),
      groups_(groups),
      kernels_(scenario.cluster.device, scenario.cluster.stack, slowdown),
      z_(layer_sizes(scenario)) {}

Template LayerTemplates::finished(TemplateWriter&& w) const {
  const StackProfile& stack = s_.cluster.stack;
  w.replace_times(s_.kernel_times, kernels_.slowdown());
  return std::move(w).finish({stack.launch, stack.dispatch, stack.graph_launch});
}

void LayerTemplates::norm_forward(TemplateWriter& w) const {
  w.compute(OpKind::norm, kernels_.persistent({z_.local_tokens * z_.hidden * norm_forward_bytes},
                                              s_.launch_env.norm_margin_forward));
}

void LayerTemplates::norm_backward(TemplateWriter& w) const {
  const double elements = z_.local_tokens * z_.hidden;
  w.compute(OpKind::norm, kernels_.persistent({elements * norm_backward_bytes},
                                              s_.launch_env.norm_margin_backward));
  w.compute(OpKind::residual, kernels_.streaming({elements * residual_bytes}));
}

void LayerTemplates::quantize(TemplateWriter& w, double elements, Operand operand) const {
  w.compute(OpKind::quantize,
            kernels_.streaming(
                {elements * quantize_bytes(s_.precision, operand, s_.adapters.present())}));
}

/// What recompute_modules mlp checkpoints (Megatron-Core transformer_layer.py): the norm belongs to
/// fc1's module, the residual stays outside.
void LayerTemplates::mlp_forward(TemplateWriter& w, bool fp8) const {
  const double passes = s_.cluster.stack.fused_activation ? 1 : 2;
  norm_forward(w);
  if (fp8) quantize(w, z_.local_tokens * z_.hidden);
  column_forward(
      w, {OpKind::fc1_gemm, z_.fc1(), TpGemm::fc1_fprop, TpGemm::fc1_dgrad, TpGemm::fc1_wgrad},
      fp8);
  w.compute(OpKind::activation,
            kernels_.streaming({z_.tokens * z_.ffn * 2 * (z_.glu + 1) * passes}));
  if (fp8) quantize(w, z_.tokens * z_.ffn);
  row_forward(w, {OpKind::fc2_gemm, z_.fc2(), TpGemm::fc2_fprop, TpGemm::fc2_dgrad}, fp8);
}

LayerKind layer_kind(const Scenario& s, int layer) {
  const SlidingWindow& window = s.model.window;
  const bool limited = window.tokens > 0 && window.tokens < s.batch.sequence &&
                       window.layers[static_cast<size_t>(layer)];
  const LayerShape shape = s.model.shape(layer);
  return {.fp8 = quantised(s, layer),
          .window = limited,
          .context = s.parallel.context_at(layer),
          .mixer = shape.mixer,
          .feed_forward = shape.feed_forward};
}

std::vector<LayerKind> prediction_kinds(const Scenario& s) {
  LayerKind kind = layer_kind(s, s.model.layers - 1);
  std::vector<LayerKind> kinds;
  for (const LayerShape shape : s.model.prediction_shapes()) {
    kind.mixer = shape.mixer;
    kind.feed_forward = shape.feed_forward;
    kinds.push_back(kind);
  }
  return kinds;
}

void LayerTemplates::residual_forward(TemplateWriter& w) const {
  const double add_bytes = residual_bytes + (s_.model.hidden_dropout ? dropout_mask_bytes : 0);
  const double passes = s_.cluster.stack.fused_activation ? 1 : 2;
  if (s_.model.post_norms) norm_forward(w);
  w.compute(OpKind::residual,
            kernels_.streaming({z_.local_tokens * z_.hidden * add_bytes * passes}));
}

void LayerTemplates::dropout_backward(TemplateWriter& w) const {
  if (s_.model.hidden_dropout)
    w.compute(OpKind::residual,
              kernels_.streaming({z_.local_tokens * z_.hidden * (4 + dropout_mask_bytes)}));
  if (s_.model.post_norms)
    w.compute(OpKind::norm, kernels_.persistent({z_.local_tokens * z_.hidden * norm_backward_bytes},
                                                s_.launch_env.norm_margin_backward));
}

void LayerTemplates::mlp_block_forward(TemplateWriter& w, LayerKind kind) const {
  if (kind.feed_forward == FeedForward::none) return;
  if (kind.moe()) return moe_block_forward(w, kind);
  w.capture(s_.graph_mlp);
  mlp_forward(w, kind.fp8);
  if (one_sum()) {
    // GPT-NeoX megatron/model/transformer.py, gpt_j_residual: each rank adds both branches' partial
    // results, which are then reduced once.
    const double elements = z_.tokens * z_.hidden;
    const bool scatters = gathers();
    w.compute(OpKind::residual, kernels_.streaming({elements * residual_bytes}));
    w.exposed(
        scatters ? OpKind::tp_reduce_scatter : OpKind::tp_all_reduce, Stream::tp,
        tp_cost(scatters ? Collective::reduce_scatter : Collective::all_reduce, elements * 2));
  }
  residual_forward(w);
}

void LayerTemplates::mlp_block_backward(TemplateWriter& w, LayerKind kind,
                                        RecomputeModules modules) const {
  if (kind.feed_forward == FeedForward::none) return;
  if (kind.moe()) return moe_block_backward(w, kind, modules);
  const bool fp8 = kind.fp8;
  const double passes = s_.cluster.stack.fused_activation ? 1 : 2;
  w.capture(s_.graph_mlp);
  dropout_backward(w);
  if (one_sum() && gathers())
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp_cost(Collective::all_gather, z_.tokens * z_.hidden * 2));
  if (modules.mlp) {
    w.set_pass(Pass::recompute);
    mlp_forward(w, fp8);
    w.set_pass(Pass::backward);
  }
  row_backward(w, {OpKind::fc2_gemm, z_.fc2(), TpGemm::fc2_fprop, TpGemm::fc2_dgrad}, fp8);
  w.compute(OpKind::activation,
            kernels_.streaming({z_.tokens * z_.ffn * 2 * (2 * z_.glu + 1) * passes}));
  if (fp8) quantize(w, z_.tokens * z_.ffn * z_.glu, Operand::gradient);
  column_backward(
      w, {OpKind::fc1_gemm, z_.fc1(), TpGemm::fc1_fprop, TpGemm::fc1_dgrad, TpGemm::fc1_wgrad},
      fp8);
  norm_backward(w);
}

/// Weights that are kept in 16 bits are quantised once a step.
void LayerTemplates::cast_weights_into(TemplateWriter& w, LayerKind kind, bool cast_weights) const {
  w.capture(s_.graph_attention);
  if (!kind.fp8 || !cast_weights) return;
  const auto weights = [](const Gemm& g) { return g.n * g.k; };
  double mlp = kind.moe() ? experts(kind).weights() + shared_weights() : 0;
  if (kind.feed_forward == FeedForward::dense) mlp = weights(z_.fc1()) + weights(z_.fc2());
  quantize(w, mixer_weights(kind) + mlp, Operand::weight);
}

void LayerTemplates::forward_layer_into(TemplateWriter& w, LayerKind kind,
                                        bool cast_weights) const {
  cast_weights_into(w, kind, cast_weights);
  mixer_block_forward(w, kind);
  mlp_block_forward(w, kind);
}

Template LayerTemplates::layer_forward(LayerKind kind, bool cast_weights) const {
  TemplateWriter w(Pass::forward);
  forward_layer_into(w, kind, cast_weights);
  return finished(std::move(w));
}

void LayerTemplates::blocks_backward(TemplateWriter& w, LayerKind kind,
                                     RecomputeModules modules) const {
  mlp_block_backward(w, kind, modules);
  mixer_block_backward(w, kind, modules);
}

Template LayerTemplates::layer_backward(LayerKind kind, bool again) const {
  TemplateWriter w(Pass::recompute);
  layer_backward_into(w, kind, again);
  return finished(std::move(w));
}

void LayerTemplates::layer_backward_into(TemplateWriter& w, LayerKind kind, bool again) const {
  const RecomputeModules modules = again ? RecomputeModules{} : s_.recompute_modules;
  if (again) forward_layer_into(w, kind, false);
  w.freeze(s_.adapters.present());
  w.set_pass(Pass::backward);
  blocks_backward(w, kind, modules);
}

}  // namespace stepsim
