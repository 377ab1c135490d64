// The routed experts of one layer on one device, piece by piece, so that a layer and the combined
// 1F1B can put them in their own order. Megatron-Core transformer/moe: moe_layer.py, router.py,
// token_dispatcher.py, experts.py.
//
// Every rank works on its tokens x top-k copies: in balance it receives as many as it sends.
// `load` is what its experts receive over that, where routing is skewed.
#pragma once

#include "sim/config/scenario.h"
#include "sim/cost/kernel.h"
#include "sim/cost/layer_sizes.h"
#include "sim/cost/quantize.h"
#include "sim/lower/layer_groups.h"
#include "sim/lower/template_writer.h"
#include "sim/network/dispatch.h"

namespace stepsim {

/// Keeps references: what it is made of must outlive it.
class ExpertBlock {
 public:
  ExpertBlock(const Scenario& scenario, const LayerGroups& groups, const KernelModel& kernels,
              const LayerSizes& sizes, bool fp8);

  /// Router, routing map, what the ranks tell each other, permutation by destination; the host
  /// waits for the token counts where shapes depend on them.
  void route(TemplateWriter& w) const;
  /// Sends tokens to their experts; returns the operation to wait for, none without a group.
  int32_t dispatch(TemplateWriter& w, DispatchPass pass) const;
  int32_t dispatch_after(int32_t after, TemplateWriter& w, DispatchPass pass) const;
  /// From the tokens that arrived to the experts' outputs, ready to be sent back.
  void forward(TemplateWriter& w) const;
  int32_t combine(TemplateWriter& w, DispatchPass pass) const;
  /// Weighted sum of the outputs of each token.
  void finish(TemplateWriter& w) const;

  void finish_backward(TemplateWriter& w) const;
  /// `activation_again`: recompute_modules moe_act.
  void backward(TemplateWriter& w, bool activation_again) const;
  void route_backward(TemplateWriter& w) const;

  /// Elements of the routed experts' GEMM weights on this rank.
  double weights() const {
    return static_cast<double>(local_) * (fc1_.n * fc1_.k + fc2_.n * fc2_.k);
  }

 private:
  void gemm(TemplateWriter& w, OpKind op, const Gemm& g, Bytes epilogue = {}) const;
  void weight_gemm(TemplateWriter& w, OpKind op, const Gemm& g) const;
  void activation(TemplateWriter& w) const;
  void clamp(TemplateWriter& w, double bytes) const;
  void quantize(TemplateWriter& w, double elements, Operand operand) const;
  Dtype dtype() const;
  /// A pass over all copies of the tokens; `touches`: reads and writes of each.
  void move(TemplateWriter& w, OpKind op, double touches) const;
  /// Tokens that came to the rows of their experts, or back.
  void permute_received(TemplateWriter& w, OpKind op) const;
  /// The bias behind fc2 (add_bias_linear); `bytes` an element where it is not fused.
  void output_bias(TemplateWriter& w, double bytes) const;
  /// The same of the copies of its own tokens.
  void move_own(TemplateWriter& w, OpKind op, double touches) const;
  /// `count` kernels that do next to nothing.
  void small(TemplateWriter& w, OpKind op, int count) const;
  int32_t exchange(int32_t after, TemplateWriter& w, OpKind op, DispatchPass pass) const;
  bool sorts() const;
  bool clamps() const { return s_.model.clamped_glu && !s_.moe_runtime.op_fuser; }
  bool fused() const { return fp8_ && s_.moe_runtime.fused_grouped_mlp; }
  bool latent() const { return s_.model.moe.latent > 0; }
  Gemm latent_down() const;
  Gemm latent_up() const;
  void latent_backward(TemplateWriter& w, const Gemm& g) const;

  const Scenario& s_;
  const LayerGroups& groups_;
  const KernelModel& k_;
  const LayerSizes& z_;
  bool fp8_;
  int local_ = 1;      ///< experts on this rank
  double own_ = 0;     ///< token vectors permuted before dispatch and after combine
  double copies_ = 0;  ///< token vectors that its experts work on
  double width_ = 0;   ///< elements of one: hidden, or the latent size
  Gemm fc1_, fc2_;     ///< of one expert; batch: all of them
  DispatchShape shape_;
};

}  // namespace stepsim
