// Templates of a decoder layer, the embedding and the head: which kernels and collectives, in which
// order. Order after Transformer Engine's LayerNormLinear and Linear modules and Megatron-Core's
// layers; where a tensor-parallel collective goes is decided by its GEMM's overlap method alone.
#pragma once

#include "sim/cost/layer_sizes.h"
#include "sim/cost/quantize.h"
#include "sim/lower/context.h"
#include "sim/lower/experts.h"
#include "sim/lower/layer_groups.h"
#include "sim/lower/layer_kind.h"
#include "sim/lower/template_writer.h"
#include "sim/network/collective.h"

namespace stepsim {

/// Builds templates of one scenario on one device. Keeps references: the scenario must outlive it.
class LayerTemplates {
 public:
  /// `slowdown`: of the device's kernels.
  LayerTemplates(const Scenario& scenario, const LayerGroups& groups, double slowdown = 1);

  /// `cast_weights`: first microbatch, when weights are not gathered in fp8.
  Template layer_forward(LayerKind kind, bool cast_weights) const;
  /// `again`: the whole forward is executed again before it; else the modules that the scenario
  /// recomputes, each just before its own backward.
  Template layer_backward(LayerKind kind, bool again) const;
  /// The same without its weight gradients, and those alone.
  Template layer_backward_input(LayerKind kind, bool again) const;
  Template layer_backward_weight(LayerKind kind, bool again) const;
  /// Forward of one microbatch's layer merged with the backward of another's, so that each one's
  /// dispatch and combine run under the other's kernels (Megatron-Core combined_1f1b.py,
  /// model_chunk_schedule_plan.py).
  Template layer_pair(LayerKind forward, bool cast_weights, LayerKind backward) const;
  /// One multi-token prediction module around layers of these kinds, its loss apart (in the head).
  Template prediction_forward(LayerKinds kinds, bool cast_weights) const;
  Template prediction_backward(LayerKinds kinds, bool again) const;
  Template embedding_forward() const;
  Template embedding_backward() const;
  Template head_forward() const;
  /// `deferred`: without the weight gradient of the output projection, which comes later.
  Template head_backward(bool deferred) const;
  /// That weight gradient of one microbatch, after the pipeline has drained.
  Template head_weight_gradient() const;

 private:
  struct Linear;   // one GEMM and its names
  struct Latents;  // of multi-latent attention
  void forward_layer_into(TemplateWriter& w, LayerKind kind, bool cast_weights) const;
  void mixer_block_forward(TemplateWriter& w, LayerKind kind) const;
  void mixer_block_backward(TemplateWriter& w, LayerKind kind, RecomputeModules modules) const;
  void blocks_backward(TemplateWriter& w, LayerKind kind, RecomputeModules modules) const;
  double mixer_weights(LayerKind kind) const;
  void attention_block_forward(TemplateWriter& w, LayerKind kind) const;
  void attention_block_backward(TemplateWriter& w, LayerKind kind, RecomputeModules modules) const;
  void projections_forward(TemplateWriter& w, bool fp8) const;
  void projections_backward(TemplateWriter& w, bool fp8) const;
  Gemm projection() const;
  double attention_weights() const;
  Latents latents() const;
  void latent_norm(TemplateWriter& w, double rank, double bytes, int margin) const;
  void latent_rope(TemplateWriter& w, const Latents& l) const;
  void latents_forward(TemplateWriter& w, bool fp8) const;
  void latents_backward(TemplateWriter& w, bool fp8) const;
  void up_projections_forward(TemplateWriter& w, bool fp8) const;
  void cast_weights_into(TemplateWriter& w, LayerKind kind, bool cast_weights) const;
  void layer_backward_into(TemplateWriter& w, LayerKind kind, bool again) const;
  double shared_weights() const;
  void mlp_block_forward(TemplateWriter& w, LayerKind kind) const;
  void mlp_block_backward(TemplateWriter& w, LayerKind kind, RecomputeModules modules) const;
  void mlp_forward(TemplateWriter& w, bool fp8) const;
  void moe_block_forward(TemplateWriter& w, LayerKind kind) const;
  void moe_block_backward(TemplateWriter& w, LayerKind kind, RecomputeModules modules) const;
  void moe_modules_forward(TemplateWriter& w, LayerKind kind) const;
  void route_forward(TemplateWriter& w, LayerKind kind) const;
  void route_backward(TemplateWriter& w, LayerKind kind, RecomputeModules modules) const;
  enum class SharedPart { all, first, last };
  void shared_forward(TemplateWriter& w, bool fp8, SharedPart part) const;
  void shared_backward(TemplateWriter& w, bool fp8) const;
  ExpertBlock experts(LayerKind kind) const { return {s_, groups_, kernels_, z_, kind.fp8}; }
  Linear prediction_projection() const;
  void prediction_into(TemplateWriter& w, LayerKinds kinds, bool cast_weights) const;
  void embed_into(TemplateWriter& w) const;
  void embed_backward_into(TemplateWriter& w) const;
  void loss_forward(TemplateWriter& w) const;
  void loss_backward(TemplateWriter& w, bool deferred) const;
  /// Where a branch joins the residual stream: its post norm if any, dropout, sum; and back.
  void residual_forward(TemplateWriter& w) const;
  void dropout_backward(TemplateWriter& w) const;
  void norm_forward(TemplateWriter& w) const;
  void norm_backward(TemplateWriter& w) const;
  void query_key_norms(TemplateWriter& w, double bytes) const;
  void quantize(TemplateWriter& w, double elements, Operand operand = Operand::input) const;
  void column_forward(TemplateWriter& w, const Linear& l, bool fp8) const;
  void row_forward(TemplateWriter& w, const Linear& l, bool fp8) const;
  void column_backward(TemplateWriter& w, const Linear& l, bool fp8) const;
  void row_backward(TemplateWriter& w, const Linear& l, bool fp8) const;
  void ring_gather(TemplateWriter& w, OpKind op, const Gemm& gemm, Dtype dtype,
                   double element_bytes, bool aggregate) const;
  CoreAttention core_attention(LayerKind kind) const {
    return {s_, groups_, kernels_, z_, kind.context, kind.window, kind.fp8};
  }
  Kernel weight_gradient(const Gemm& forward, Dtype dtype, int sms = 0) const;
  CollectiveCost tp_cost(Collective op, double bytes) const;
  CollectiveCost userbuffers_cost(double bytes, const TpOverlap& method) const;
  const TpOverlap& overlap(TpGemm g) const { return s_.overlap.tp[static_cast<size_t>(g)]; }
  bool one_sum() const { return s_.model.parallel_residual && s_.parallel.tp > 1; }
  bool gathers() const { return s_.parallel.sequence_parallel && s_.parallel.tp > 1; }
  Template finished(TemplateWriter&& w) const;
  Dtype dtype(bool fp8) const { return fp8 ? gemm_dtype(s_.precision) : s_.precision.parameters; }
  /// Bytes of an element that TP gathers as a GEMM's input.
  double input_bytes(bool fp8) const { return fp8 ? operand_bytes(s_.precision) : 2; }

  const Scenario& s_;
  LayerGroups groups_;
  KernelModel kernels_;
  LayerSizes z_;
};

}  // namespace stepsim
