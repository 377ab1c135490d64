// The ends of the model: embedding, final norm, output projection and loss, under tensor
// parallelism. Megatron-Core tensor_parallel/layers.py (VocabParallelEmbedding,
// ColumnParallelLinear) and cross_entropy.py.
#include "sim/lower/layer.h"
#include "sim/lower/linear.h"

namespace stepsim {

namespace {
/// Passes over the logits: bytes per element and all-reduces of one fp32 value per token.
struct CrossEntropyCost {
  double forward_bytes, backward_bytes;
  int all_reduces;
};
constexpr CrossEntropyCost cross_entropy_cost(CrossEntropy kind) {
  switch (kind) {
    case CrossEntropy::unfused:
      return {30, 14, 3};
    case CrossEntropy::native:
      return {20, 10, 2};
    case CrossEntropy::te:
      return {6, 4, 1};
  }
  return {};
}
constexpr double fp32 = 4;
}  // namespace

void LayerTemplates::embed_into(TemplateWriter& w) const {
  const double elements = z_.tokens * z_.hidden;
  const bool learned = s_.model.position == PositionEmbedding::learned;
  w.compute(OpKind::embedding, kernels_.streaming({elements * 4}));
  if (gathers())
    w.exposed(OpKind::tp_reduce_scatter, Stream::tp,
              tp_cost(Collective::reduce_scatter, elements * 2));
  else if (s_.parallel.tp > 1)
    w.exposed(OpKind::tp_all_reduce, Stream::tp, tp_cost(Collective::all_reduce, elements * 2));
  w.compute(OpKind::embedding,
            kernels_.streaming({z_.local_tokens * z_.hidden * (learned ? 10 : 4)}), 1);
}

Template LayerTemplates::embedding_forward() const {
  TemplateWriter w(Pass::forward);
  embed_into(w);
  return finished(std::move(w));
}

void LayerTemplates::embed_backward_into(TemplateWriter& w) const {
  const double elements = z_.tokens * z_.hidden;
  if (gathers())
    w.exposed(OpKind::tp_all_gather, Stream::tp, tp_cost(Collective::all_gather, elements * 2));
  w.compute(OpKind::embedding, kernels_.streaming({elements * 4}));
  // The dense 16-bit gradient of the whole table is zeroed, scattered into, and added to the main
  // gradient.
  const double main_grad = s_.precision.grad_reduce_in_fp32 ? 4 : 2;
  w.compute(OpKind::grad_accumulate,
            kernels_.streaming({z_.vocab * z_.hidden * (2 + 2 + 2 * main_grad)}));
}

Template LayerTemplates::embedding_backward() const {
  TemplateWriter w(Pass::backward);
  embed_backward_into(w);
  return finished(std::move(w));
}

/// Output projection and loss of one depth.
void LayerTemplates::loss_forward(TemplateWriter& w) const {
  const Gemm g = z_.output();
  const CrossEntropyCost loss = cross_entropy_cost(s_.cross_entropy);
  if (gathers())
    w.exposed(OpKind::tp_all_gather, Stream::tp, tp_cost(Collective::all_gather, g.m * g.k * 2));
  w.compute(OpKind::output_gemm, kernels_.gemm(g, s_.precision.parameters));
  const Kernel passes = kernels_.streaming({g.m * g.n * loss.forward_bytes});
  const int parts = s_.parallel.tp > 1 ? loss.all_reduces + 1 : 1;
  for (int i = 0; i < parts; ++i) {
    if (i > 0)
      w.exposed(OpKind::tp_all_reduce, Stream::tp,
                tp_cost(Collective::all_reduce, z_.tokens * fp32));
    w.compute(OpKind::cross_entropy, passes / parts, i);
  }
}

void LayerTemplates::loss_backward(TemplateWriter& w, bool deferred) const {
  // A frozen projection is one whose weight gradient never comes (Megatron-Core tensor_parallel/
  // layers.py, LinearWithFrozenWeight).
  deferred |= s_.adapters.present();
  w.set_pass(Pass::backward);
  const Gemm g = z_.output();
  w.compute(OpKind::cross_entropy,
            kernels_.streaming({g.m * g.n * cross_entropy_cost(s_.cross_entropy).backward_bytes}));
  w.set_pass(Pass::backward_data);
  const double input = g.m * g.k;
  int32_t gathered = TemplateOp::none, reduced = TemplateOp::none;
  if (gathers() && !deferred)
    gathered = w.communicate(OpKind::tp_all_gather, Stream::tp,
                             tp_cost(Collective::all_gather, input * 2));
  const int32_t data =
      w.compute(OpKind::output_gemm, kernels_.gemm(dgrad(g), s_.precision.parameters));
  if (s_.parallel.tp > 1)
    reduced = w.communicate_after(
        data, gathers() ? OpKind::tp_reduce_scatter : OpKind::tp_all_reduce, Stream::tp,
        tp_cost(gathers() ? Collective::reduce_scatter : Collective::all_reduce, input * 2));
  if (!deferred) {
    w.set_pass(Pass::backward_weight);
    if (gathered != TemplateOp::none) w.wait(gathered);
    w.compute(OpKind::output_gemm, weight_gradient(g, s_.precision.parameters));
    w.set_pass(Pass::backward);
  }
  if (reduced != TemplateOp::none) w.wait(reduced);
}

/// Every prediction depth has logits and a loss of its own, before the main one.
Template LayerTemplates::head_forward() const {
  TemplateWriter w(Pass::forward);
  norm_forward(w);
  for (int depth = 0; depth <= s_.model.mtp_layers; ++depth) loss_forward(w);
  return finished(std::move(w));
}

Template LayerTemplates::head_backward(bool deferred) const {
  TemplateWriter w(Pass::backward);
  for (int depth = 0; depth <= s_.model.mtp_layers; ++depth) loss_backward(w, deferred);
  norm_backward(w);
  return finished(std::move(w));
}

Template LayerTemplates::head_weight_gradient() const {
  TemplateWriter w(Pass::backward_weight);
  const Gemm g = z_.output();
  // The next microbatch's input is gathered while this one's GEMM runs: the gather waits for no
  // compute (Megatron-Core utils.py, drain_embedding_wgrad_compute).
  for (int depth = 0; depth <= s_.model.mtp_layers; ++depth) {
    if (gathers())
      w.wait(w.communicate_after(TemplateOp::none, OpKind::tp_all_gather, Stream::tp,
                                 tp_cost(Collective::all_gather, g.m * g.k * 2)));
    w.compute(OpKind::output_gemm, weight_gradient(g, s_.precision.parameters));
  }
  return finished(std::move(w));
}

}  // namespace stepsim
