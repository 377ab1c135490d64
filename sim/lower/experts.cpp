#include "sim/lower/experts.h"

#include <algorithm>

namespace stepsim {

namespace {

/// Kernels of the router beside its GEMM: scores, top-k, probabilities, map, auxiliary loss
/// (moe_utils.py, topk_routing_with_score_function and switch_load_balancing_loss_func); fused, one
/// of Transformer Engine each.
constexpr int router_kernels = 18, fused_router_kernels = 4;
/// Token counts of experts and ranks from the map (token_dispatcher.py, preprocess), and the copies
/// of the counts to the host.
constexpr int count_kernels = 8, copies_to_host = 3;
/// Row maps of a permutation, fused and not (moe_utils.py, permute).
constexpr int fused_map_kernels = 1, map_kernels = 4;
/// DeepEP and Hybrid-EP: indices from the map, layout, metadata (fused_a2a.py).
constexpr int flex_kernels = 4;

}  // namespace

ExpertBlock::ExpertBlock(const Scenario& scenario, const LayerGroups& groups,
                         const KernelModel& kernels, const LayerSizes& sizes, bool fp8)
    : s_(scenario), groups_(groups), k_(kernels), z_(sizes), fp8_(fp8) {
  const Moe& moe = s_.model.moe;
  const MoeRuntime& run = s_.moe_runtime;
  const Parallelism& p = s_.parallel;
  local_ = moe.experts / p.ep;
  width_ = moe.latent > 0 ? static_cast<double>(moe.latent) : z_.hidden;
  const double capacity = run.pad_to_capacity ? run.capacity_factor.value_or(1) : 1;
  // A padded expert holds its capacity, whatever comes; a bounded one at most that.
  const double load = run.pad_to_capacity   ? 1
                      : run.capacity_factor ? std::min(groups_.expert_load, *run.capacity_factor)
                                            : groups_.expert_load;
  const double sent = z_.local_tokens * moe.top_k * capacity;
  copies_ = sent * p.etp * load;
  // All-gathered tokens are permuted once they have arrived.
  own_ = run.dispatcher == Dispatcher::allgather ? copies_ : sent;
  if (run.pad_multiple > 1 && !run.pad_to_capacity)
    copies_ += local_ * (run.pad_multiple - 1) / 2.0;  // each expert's last multiple, half full
  const double ffn = static_cast<double>(moe.ffn_hidden) / p.etp, tokens = copies_ / local_;
  fc1_ = {tokens, z_.glu * ffn, width_, static_cast<double>(local_)};
  fc2_ = {tokens, width_, ffn, static_cast<double>(local_)};
  // A rank sends as many as all others; a hot one receives more.
  shape_ = {.tokens = z_.local_tokens * capacity * std::max(1.0, load),
            .width = width_,
            .reduce_bytes = moe.router_fp32 ? 4.0 : 2.0,
            .experts = moe.experts,
            .top_k = moe.top_k,
            .groups = moe.groups,
            .groups_top_k = moe.groups_top_k,
            .ep = p.ep,
            .etp = p.etp,
            .ranks_per_domain = run.ranks_per_domain};
}

void ExpertBlock::small(TemplateWriter& w, OpKind op, int count) const {
  w.compute(op, k_.streaming({}) / (1.0 / count));
  w.operators(count);
}

void ExpertBlock::move(TemplateWriter& w, OpKind op, double touches) const {
  w.compute(op, k_.gather({copies_ * width_ * 2 * touches}));
}

void ExpertBlock::move_own(TemplateWriter& w, OpKind op, double touches) const {
  w.compute(op, k_.gather({own_ * width_ * 2 * touches}));
}

void ExpertBlock::quantize(TemplateWriter& w, double elements, Operand operand) const {
  if (!fp8_) return;
  w.compute(
      OpKind::quantize,
      k_.streaming({elements * quantize_bytes(s_.precision, operand, s_.adapters.present())}));
}

Dtype ExpertBlock::dtype() const {
  return fp8_ ? gemm_dtype(s_.precision) : s_.precision.parameters;
}

/// Tokens that arrive by rank are sorted by expert.
bool ExpertBlock::sorts() const {
  return s_.moe_runtime.dispatcher == Dispatcher::alltoall && s_.parallel.ep > 1 && local_ > 1;
}

void ExpertBlock::route(TemplateWriter& w) const {
  const Moe& moe = s_.model.moe;
  const MoeRuntime& run = s_.moe_runtime;
  const bool flex = run.flex(), group = s_.parallel.ep * s_.parallel.etp > 1;
  w.capture(s_.graph_router);
  w.compute(OpKind::router, k_.gemm({z_.local_tokens, static_cast<double>(moe.experts), z_.hidden},
                                    s_.precision.parameters));
  small(w, OpKind::router, run.router_fusion ? fused_router_kernels : router_kernels);
  w.compute(OpKind::router, k_.router(z_.local_tokens, moe.experts));
  if (latent()) w.compute(OpKind::latent_gemm, k_.gemm(latent_down(), s_.precision.parameters));
  w.capture(s_.graph_preprocess);
  if (flex) {
    small(w, OpKind::router, flex_kernels);
  } else {
    small(w, OpKind::router, count_kernels);
  }
  if (group)
    w.exposed(OpKind::ep_counts, Stream::ep,
              exchange_cost(run.dispatcher, shape_, groups_.etp_ep, s_.cluster));
  int32_t counts = TemplateOp::none;
  if (!run.static_shapes() && !run.paged_stash) {
    small(w, OpKind::router, copies_to_host);
    counts = w.last_compute();
  }
  if (!flex) {
    small(w, OpKind::permute, run.permute_fusion ? fused_map_kernels : map_kernels);
    move_own(w, OpKind::permute, 2);
  }
  w.capture(s_.graph_moe);
  // Sizes of buffers and of the experts' GEMMs are known to the host only after these counts.
  w.host_sync(counts);
}

int32_t ExpertBlock::exchange(int32_t after, TemplateWriter& w, OpKind op,
                              DispatchPass pass) const {
  if (s_.parallel.ep * s_.parallel.etp < 2) return TemplateOp::none;
  return w.communicate_after(after, op, Stream::ep,
                             dispatch_cost(s_.moe_runtime.dispatcher, pass, shape_, groups_.etp_ep,
                                           s_.cluster, s_.moe_runtime.num_sms));
}

int32_t ExpertBlock::dispatch(TemplateWriter& w, DispatchPass pass) const {
  return exchange(w.last_compute(), w, OpKind::ep_dispatch, pass);
}
int32_t ExpertBlock::dispatch_after(int32_t after, TemplateWriter& w, DispatchPass pass) const {
  return exchange(after, w, OpKind::ep_dispatch, pass);
}
int32_t ExpertBlock::combine(TemplateWriter& w, DispatchPass pass) const {
  return exchange(w.last_compute(), w, OpKind::ep_combine, pass);
}

void ExpertBlock::gemm(TemplateWriter& w, OpKind op, const Gemm& g) const {
  const bool one = s_.moe_runtime.op_fuser;
  w.compute(op, k_.grouped_gemm(g, dtype(), one ? 0 : expert_streams));
  if (!one) w.launches(local_);
}

void ExpertBlock::weight_gemm(TemplateWriter& w, OpKind op, const Gemm& g) const {
  const bool one = s_.moe_runtime.op_fuser;
  const double main_grad = s_.precision.grad_reduce_in_fp32 ? 4 : 2;
  const double bytes = s_.gradient_accumulation_fusion ? 2 * main_grad : 4 + 2 * main_grad;
  w.weight(op,
           k_.grouped_gemm(wgrad(g), dtype(), one ? 0 : expert_streams) +
               k_.traffic({g.n * g.k * g.batch * bytes}),
           one ? 1 : local_);
}

void ExpertBlock::activation(TemplateWriter& w) const {
  const double passes = s_.cluster.stack.fused_activation ? 1 : 2;
  w.compute(OpKind::expert_activation,
            k_.streaming({copies_ * fc2_.k * 2 * (z_.glu + 1) * passes}));
}

void ExpertBlock::forward(TemplateWriter& w) const {
  if (sorts() || (s_.moe_runtime.flex() && !s_.moe_runtime.permute_in_dispatch))
    move(w, OpKind::permute, 2);
  quantize(w, copies_ * fc1_.k, Operand::input);
  gemm(w, OpKind::expert_fc1, fc1_);
  activation(w);
  quantize(w, copies_ * fc2_.k, Operand::input);
  gemm(w, OpKind::expert_fc2, fc2_);
  if (sorts() || (s_.moe_runtime.flex() && !s_.moe_runtime.permute_in_dispatch))
    move(w, OpKind::unpermute, 2);
}

/// moe_latent_size: routed experts work between a down and an up projection, which every rank has
/// whole and applies to its own tokens.
Gemm ExpertBlock::latent_down() const { return {z_.local_tokens, width_, z_.hidden}; }
Gemm ExpertBlock::latent_up() const { return {z_.local_tokens, z_.hidden, width_}; }

void ExpertBlock::finish(TemplateWriter& w) const {
  if (!s_.moe_runtime.flex()) move_own(w, OpKind::unpermute, 2);
  if (latent()) w.compute(OpKind::latent_gemm, k_.gemm(latent_up(), s_.precision.parameters));
}

void ExpertBlock::finish_backward(TemplateWriter& w) const {
  if (latent()) latent_backward(w, latent_up());
  if (!s_.moe_runtime.flex()) move_own(w, OpKind::unpermute, 2);
}

void ExpertBlock::backward(TemplateWriter& w, bool activation_again) const {
  const bool moves = sorts() || (s_.moe_runtime.flex() && !s_.moe_runtime.permute_in_dispatch);
  const double passes = s_.cluster.stack.fused_activation ? 1 : 2;
  if (moves) move(w, OpKind::unpermute, 2);
  quantize(w, copies_ * fc2_.n, Operand::gradient);
  w.set_pass(Pass::backward_data);
  gemm(w, OpKind::expert_fc2, dgrad(fc2_));
  if (activation_again) {
    w.set_pass(Pass::recompute);
    activation(w);
  }
  weight_gemm(w, OpKind::expert_fc2, fc2_);
  w.set_pass(Pass::backward);
  w.compute(OpKind::expert_activation,
            k_.streaming({copies_ * fc2_.k * 2 * (2 * z_.glu + 1) * passes}));
  quantize(w, copies_ * fc1_.n, Operand::gradient);
  w.set_pass(Pass::backward_data);
  gemm(w, OpKind::expert_fc1, dgrad(fc1_));
  weight_gemm(w, OpKind::expert_fc1, fc1_);
  w.set_pass(Pass::backward);
  if (moves) move(w, OpKind::permute, 2);
}

void ExpertBlock::latent_backward(TemplateWriter& w, const Gemm& g) const {
  w.compute(OpKind::latent_gemm, k_.gemm(dgrad(g), s_.precision.parameters));
  w.weight(OpKind::latent_gemm, k_.gemm(wgrad(g), s_.precision.parameters));
}

void ExpertBlock::route_backward(TemplateWriter& w) const {
  const Moe& moe = s_.model.moe;
  w.capture(s_.graph_preprocess);
  if (!s_.moe_runtime.flex()) move_own(w, OpKind::permute, 2);
  w.capture(s_.graph_router);
  if (latent()) latent_backward(w, latent_down());
  small(w, OpKind::router, s_.moe_runtime.router_fusion ? fused_router_kernels : router_kernels);
  w.compute(OpKind::router, k_.router(z_.local_tokens, moe.experts));
  const Gemm gate{z_.local_tokens, static_cast<double>(moe.experts), z_.hidden};
  w.compute(OpKind::router, k_.gemm(dgrad(gate), s_.precision.parameters));
  w.weight(OpKind::router, k_.gemm(wgrad(gate), s_.precision.parameters));
}

}  // namespace stepsim
