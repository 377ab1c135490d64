// Multi-token prediction (Megatron-Core transformer/multi_token_prediction.py): the embedding of
// the shifted tokens and the hidden state, each normed, side by side through a projection 2H -> H,
// then decoder layers and a norm. Logits and loss of the depth are the head's.
#include "sim/lower/elementwise.h"
#include "sim/lower/linear.h"

namespace stepsim {

namespace {
constexpr double prediction_copy_bytes = 4;  ///< read and write an element
}  // namespace

LayerTemplates::Linear LayerTemplates::prediction_projection() const {
  return {OpKind::mtp_projection,
          {z_.tokens, z_.hidden / s_.parallel.tp, 2 * z_.hidden},
          TpGemm::qkv_fprop,
          TpGemm::qkv_dgrad,
          TpGemm::qkv_wgrad};
}

void LayerTemplates::prediction_into(TemplateWriter& w, LayerKinds kinds, bool cast_weights) const {
  const Linear l = prediction_projection();
  const double local = z_.local_tokens * z_.hidden;
  w.capture(false);
  if (kinds.front().fp8 && cast_weights) quantize(w, l.gemm.n * l.gemm.k, Operand::weight);
  norm_forward(w);
  norm_forward(w);
  w.compute(OpKind::residual, kernels_.streaming({2 * local * prediction_copy_bytes}));
  if (kinds.front().fp8) quantize(w, 2 * local);
  if (gathers())
    w.exposed(
        OpKind::tp_all_gather, Stream::tp,
        tp_cost(Collective::all_gather, l.gemm.m * l.gemm.k * input_bytes(kinds.front().fp8)));
  w.compute(l.op, kernels_.gemm(l.gemm, dtype(kinds.front().fp8)));
  // Every rank has a slice of the features of all tokens: gathered, then cut by tokens again.
  if (s_.parallel.tp > 1) {
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp_cost(Collective::all_gather, z_.tokens * z_.hidden * 2));
    w.compute(OpKind::residual, kernels_.streaming({local * prediction_copy_bytes}));
  }
  for (const LayerKind kind : kinds) forward_layer_into(w, kind, cast_weights);
  w.capture(false);
  norm_forward(w);
}

Template LayerTemplates::prediction_forward(LayerKinds kinds, bool cast_weights) const {
  TemplateWriter w(Pass::forward);
  embed_into(w);
  prediction_into(w, kinds, cast_weights);
  return finished(std::move(w));
}

Template LayerTemplates::prediction_backward(LayerKinds kinds, bool again) const {
  TemplateWriter w(Pass::recompute);
  const Linear l = prediction_projection();
  const double local = z_.local_tokens * z_.hidden, tp = s_.parallel.tp;
  const auto norm = [&] {
    w.compute(OpKind::norm, kernels_.persistent({local * norm_backward_bytes},
                                                s_.launch_env.norm_margin_backward));
  };
  if (again) prediction_into(w, kinds, false);
  w.set_pass(Pass::backward);
  norm();
  const RecomputeModules modules = again ? RecomputeModules{} : s_.recompute_modules;
  for (size_t i = kinds.size(); i-- > 0;) blocks_backward(w, kinds[i], modules);
  w.capture(false);
  // The cut by tokens is undone; the gather of features leaves each rank its slice.
  if (gathers())
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp_cost(Collective::all_gather, z_.tokens * z_.hidden * 2));
  if (tp > 1)
    w.compute(OpKind::residual,
              kernels_.streaming({z_.tokens * z_.hidden / tp * prediction_copy_bytes}));
  if (kinds.front().fp8) quantize(w, l.gemm.m * l.gemm.n, Operand::gradient);
  column_backward(w, l, kinds.front().fp8);
  w.compute(OpKind::residual, kernels_.streaming({2 * local * prediction_copy_bytes}));
  norm();
  norm_backward(w);
  embed_backward_into(w);
  return finished(std::move(w));
}

}  // namespace stepsim
