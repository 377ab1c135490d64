// A layer's mixture of experts: shared experts, routed experts, and what hides their transfers.
// Megatron-Core transformer/moe/moe_layer.py and shared_experts.py.
#include "sim/lower/elementwise.h"
#include "sim/lower/linear.h"

namespace stepsim {

namespace {
/// The shared experts' two products.
Gemm shared_fc1(const Scenario& s, const LayerSizes& z) {
  return {z.tokens, z.glu * static_cast<double>(s.model.moe.shared_ffn_hidden) / s.parallel.tp,
          z.hidden};
}
Gemm shared_fc2(const Scenario& s, const LayerSizes& z) {
  return {z.tokens, z.hidden, static_cast<double>(s.model.moe.shared_ffn_hidden) / s.parallel.tp};
}
}  // namespace

double LayerTemplates::shared_weights() const {
  const Gemm fc1 = shared_fc1(s_, z_), fc2 = shared_fc2(s_, z_);
  return fc1.n * fc1.k + fc2.n * fc2.k;
}

void LayerTemplates::shared_forward(TemplateWriter& w, bool fp8, SharedPart part) const {
  if (s_.model.moe.shared_ffn_hidden == 0) return;
  const Gemm fc1 = shared_fc1(s_, z_), fc2 = shared_fc2(s_, z_);
  const double passes = s_.cluster.stack.fused_activation ? 1 : 2;
  if (part != SharedPart::last) {
    if (fp8) quantize(w, z_.local_tokens * z_.hidden);
    column_forward(
        w, {OpKind::shared_fc1, fc1, TpGemm::fc1_fprop, TpGemm::fc1_dgrad, TpGemm::fc1_wgrad}, fp8);
    w.compute(OpKind::shared_activation,
              kernels_.streaming({fc2.m * fc2.k * 2 * (z_.glu + 1) * passes}));
  }
  if (part != SharedPart::first) {
    if (fp8) quantize(w, fc2.m * fc2.k);
    row_forward(w, {OpKind::shared_fc2, fc2, TpGemm::fc2_fprop, TpGemm::fc2_dgrad}, fp8);
  }
}

void LayerTemplates::shared_backward(TemplateWriter& w, bool fp8) const {
  if (s_.model.moe.shared_ffn_hidden == 0) return;
  const Gemm fc1 = shared_fc1(s_, z_), fc2 = shared_fc2(s_, z_);
  const double passes = s_.cluster.stack.fused_activation ? 1 : 2;
  row_backward(w, {OpKind::shared_fc2, fc2, TpGemm::fc2_fprop, TpGemm::fc2_dgrad}, fp8);
  w.compute(OpKind::shared_activation,
            kernels_.streaming({fc2.m * fc2.k * 2 * (2 * z_.glu + 1) * passes}));
  if (fp8) quantize(w, fc1.m * fc1.n, Operand::gradient);
  column_backward(
      w, {OpKind::shared_fc1, fc1, TpGemm::fc1_fprop, TpGemm::fc1_dgrad, TpGemm::fc1_wgrad}, fp8);
}

/// Norm, shared experts unless they run beside the transfers, router.
void LayerTemplates::route_forward(TemplateWriter& w, LayerKind kind) const {
  w.capture(s_.graph_router);
  norm_forward(w);
  if (!s_.moe_runtime.shared_overlap) shared_forward(w, kind.fp8, SharedPart::all);
  experts(kind).route(w);
}

void LayerTemplates::route_backward(TemplateWriter& w, LayerKind kind,
                                    RecomputeModules modules) const {
  experts(kind).route_backward(w);
  if (modules.shared_experts) {
    w.set_pass(Pass::recompute);
    shared_forward(w, kind.fp8, SharedPart::all);
    w.set_pass(Pass::backward);
  }
  shared_backward(w, kind.fp8);
  if (modules.layernorm) {
    w.set_pass(Pass::recompute);
    norm_forward(w);
    w.set_pass(Pass::backward);
  }
  norm_backward(w);
}

/// What recompute_modules moe runs again.
void LayerTemplates::moe_modules_forward(TemplateWriter& w, LayerKind kind) const {
  const ExpertBlock block = experts(kind);
  const bool beside = s_.moe_runtime.shared_overlap;
  route_forward(w, kind);
  const int32_t sent = block.dispatch(w, DispatchPass::dispatch);
  if (beside) shared_forward(w, kind.fp8, SharedPart::first);
  if (sent != TemplateOp::none) w.wait(sent);
  block.forward(w);
  const int32_t back = block.combine(w, DispatchPass::combine);
  if (beside) shared_forward(w, kind.fp8, SharedPart::last);
  if (back != TemplateOp::none) w.wait(back);
  block.finish(w);
}

void LayerTemplates::moe_block_forward(TemplateWriter& w, LayerKind kind) const {
  moe_modules_forward(w, kind);
  residual_forward(w);
}

void LayerTemplates::moe_block_backward(TemplateWriter& w, LayerKind kind,
                                        RecomputeModules modules) const {
  const ExpertBlock block = experts(kind);
  w.capture(s_.graph_moe);
  dropout_backward(w);
  if (modules.moe) {
    w.set_pass(Pass::recompute);
    moe_modules_forward(w, kind);
    w.set_pass(Pass::backward);
  }
  block.finish_backward(w);
  const int32_t sent = block.combine(w, DispatchPass::combine_backward);
  if (sent != TemplateOp::none) w.wait(sent);
  // overlap_dispatch_backward_with_experts_wgrad: weight gradients follow what others wait for.
  const bool beside = s_.moe_runtime.overlap_dispatch_backward && !w.deferring();
  if (beside) w.defer_weights(true);
  block.backward(w, modules.moe_act);
  const int32_t back = block.dispatch(w, DispatchPass::dispatch_backward);
  if (beside) {
    w.flush_weights();
    w.defer_weights(false);
  }
  if (back != TemplateOp::none) w.wait(back);
  route_backward(w, kind, modules);
}

}  // namespace stepsim
