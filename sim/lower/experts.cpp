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
/// Bytes an element of the bias behind fc2, which is weighted by the probabilities in fp32
/// (experts.py, _apply_bias): product, sum, concatenation and cast; backward the two casts, the
/// gradients of bias and probabilities and the concatenation of the split. Fused it rides in one
/// pass of 16 bits.
constexpr double bias_bytes = 28, bias_gradient_bytes = 40, fused_bias_bytes = 4;
/// A clamp of both halves of fc1's output (fused_bias_geglu.py, weighted_bias_quick_geglu_impl) is
/// three operators a value of the activation: two clamps and a concatenation; backward two and the
/// gradient of the split. The offset of the linear half is a tensor from the host each time.
constexpr double clamp_bytes = 16, clamp_gradient_bytes = 20;
constexpr int clamp_operators = 3;
/// Kernels that quantise one expert's tensor: per-tensor current scaling clears and finds the
/// maximum and makes the scale of it first, NVFP4 finds the maximum (Transformer Engine
/// pytorch/csrc/quantizer.cpp).
constexpr int cast_kernels(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::current ? 4 : recipe == Fp8Recipe::nvfp4 ? 2 : 1;
}

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

void ExpertBlock::permute_received(TemplateWriter& w, OpKind op) const {
  const MoeRuntime& run = s_.moe_runtime;
  if (sorts()) return move(w, op, 2);
  if (!run.flex() || run.permute_in_dispatch) return;
  // One copy a distinct rank came: each is read once and written to its experts' rows.
  const double came = shape_.tokens * shape_.etp * distinct_blocks(shape_, shape_.ep);
  w.compute(op, k_.gather({(came + copies_) * width_ * 2}));
}

void ExpertBlock::output_bias(TemplateWriter& w, double bytes) const {
  if (!s_.model.linear_bias) return;
  const bool one = s_.moe_runtime.op_fuser;
  w.compute(OpKind::expert_bias,
            k_.streaming({copies_ * width_ * (one ? fused_bias_bytes : bytes)}));
  if (!one) w.operators(2 * local_ + 2);
}

void ExpertBlock::move_own(TemplateWriter& w, OpKind op, double touches) const {
  w.compute(op, k_.gather({own_ * width_ * 2 * touches}));
}

void ExpertBlock::quantize(TemplateWriter& w, double elements, Operand operand) const {
  if (!fp8_) return;
  const Bytes bytes{elements * quantize_bytes(s_.precision, operand, s_.adapters.present())};
  if (s_.moe_runtime.op_fuser) {
    w.compute(OpKind::quantize, k_.streaming(bytes));
    return;
  }
  // Each expert has its own scales, hence its own tensor and casts (GroupedLinear).
  const int casts = local_ * cast_kernels(s_.precision.fp8);
  w.compute(OpKind::quantize, k_.streaming(bytes / casts) / (1.0 / casts));
  w.operators(local_);
  w.launches(casts);
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

void ExpertBlock::gemm(TemplateWriter& w, OpKind op, const Gemm& g, Bytes epilogue) const {
  const bool one = s_.moe_runtime.op_fuser;
  w.compute(op, k_.grouped_gemm(g, dtype(), one ? 0 : expert_streams, epilogue));
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
  if (clamps()) {
    const int32_t fc1 = w.last_compute();
    clamp(w, clamp_bytes);
    // Copying a number from pageable memory ends when the stream has come to it.
    w.host_sync(fc1);
  }
  w.compute(OpKind::expert_activation,
            k_.streaming({copies_ * fc2_.k * 2 * (z_.glu + 1) * passes}));
}

void ExpertBlock::clamp(TemplateWriter& w, double bytes) const {
  w.compute(OpKind::expert_activation,
            k_.streaming({copies_ * fc2_.k * bytes / clamp_operators}) / (1.0 / clamp_operators));
  w.operators(clamp_operators);
}

void ExpertBlock::forward(TemplateWriter& w) const {
  permute_received(w, OpKind::permute);
  quantize(w, copies_ * fc1_.k, Operand::input);
  if (fused()) {
    gemm(w, OpKind::expert_fc1, fc1_, {copies_ * fc2_.k * 2 * operand_bytes(s_.precision)});
  } else {
    gemm(w, OpKind::expert_fc1, fc1_);
    activation(w);
    quantize(w, copies_ * fc2_.k, Operand::input);
  }
  gemm(w, OpKind::expert_fc2, fc2_);
  output_bias(w, bias_bytes);
  permute_received(w, OpKind::unpermute);
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
  const double passes = s_.cluster.stack.fused_activation ? 1 : 2;
  permute_received(w, OpKind::unpermute);
  output_bias(w, bias_gradient_bytes);
  quantize(w, copies_ * fc2_.n, Operand::gradient);
  w.set_pass(Pass::backward_data);
  if (fused()) {
    // The epilogue reads what the activation read and writes its gradient in both layouts.
    const double epilogue = z_.glu * (2 + 2 * operand_bytes(s_.precision));
    gemm(w, OpKind::expert_fc2, dgrad(fc2_), {copies_ * fc2_.k * epilogue});
  } else {
    gemm(w, OpKind::expert_fc2, dgrad(fc2_));
  }
  if (activation_again) {
    w.set_pass(Pass::recompute);
    activation(w);
    // fc2 kept its input as it was, so that it could be given up (Transformer Engine PR 1865):
    // its backward quantises it, within its own operator.
    quantize(w, copies_ * fc2_.k, Operand::input);
    if (fp8_ && !s_.moe_runtime.op_fuser) w.within_operator();
  }
  weight_gemm(w, OpKind::expert_fc2, fc2_);
  w.set_pass(Pass::backward);
  if (!fused()) {
    w.compute(OpKind::expert_activation,
              k_.streaming({copies_ * fc2_.k * 2 * (2 * z_.glu + 1) * passes}));
    if (clamps()) clamp(w, clamp_gradient_bytes);
    quantize(w, copies_ * fc1_.n, Operand::gradient);
  }
  w.set_pass(Pass::backward_data);
  gemm(w, OpKind::expert_fc1, dgrad(fc1_));
  weight_gemm(w, OpKind::expert_fc1, fc1_);
  w.set_pass(Pass::backward);
  permute_received(w, OpKind::permute);
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
