#include "sim/lower/layer.h"

#include <algorithm>

#include "sim/lower/linear.h"
#include "sim/lower/memory.h"

namespace stepsim {

namespace {
/// Bytes moved per element of a 16-bit tensor by each elementwise pass (reads and writes).
constexpr double norm_forward_bytes = 4;   ///< read x, write y
constexpr double norm_backward_bytes = 6;  ///< read x and dy, write dx
constexpr double residual_bytes = 6;       ///< read two, write one
constexpr double dropout_mask_bytes = 1;
constexpr double rope_bytes = 4;           ///< read and write q, k
constexpr double unfused_rope_passes = 4;  ///< slice, rotate, two multiplies, add, concatenate
constexpr double ring_correction_bytes =
    10;  ///< merge one ring step's output: fp32 read and write, 16-bit read

/// Quantise passes, bytes per element: delayed scaling casts and transposes in one pass (read 2,
/// write 1 + 1); current scaling reads once more for the maximum (Transformer Engine quantizers).
constexpr double quantize_bytes(Fp8Recipe recipe) { return recipe == Fp8Recipe::current ? 6 : 4; }
}  // namespace

LayerTemplates::LayerTemplates(const Scenario& scenario, const LayerGroups& groups, double slowdown)
    : s_(scenario),
      groups_(groups),
      kernels_(scenario.cluster.device, scenario.cluster.stack, slowdown),
      z_(layer_sizes(scenario)) {}

LaunchCost LayerTemplates::launch() const {
  const StackProfile& stack = s_.cluster.stack;
  return {stack.launch, stack.dispatch, stack.graph_launch};
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

void LayerTemplates::query_key_norms(TemplateWriter& w, double bytes) const {
  if (!s_.model.qk_norm) return;
  w.compute(OpKind::norm, kernels_.streaming({z_.tokens * z_.head_features * bytes}));
  w.compute(OpKind::norm, kernels_.streaming({z_.tokens * z_.kv_features * bytes}));
}

/// Passes over q and k that rotate them.
double LayerTemplates::rope_passes() const {
  if (s_.model.position != PositionEmbedding::rope) return 0;
  return s_.fused_rope ? 1 : unfused_rope_passes;
}

void LayerTemplates::quantize(TemplateWriter& w, double elements) const {
  w.compute(OpKind::quantize, kernels_.streaming({elements * quantize_bytes(s_.precision.fp8)}));
}

void LayerTemplates::context_ring(TemplateWriter& w, const Kernel& compute, Bytes message,
                                  Bytes correction) const {
  const int cp = s_.parallel.cp;
  const CollectiveCost hop =
      collective_cost(Collective::send_recv, message, groups_.cp, s_.cluster);
  const int32_t source = w.last_compute();
  int32_t arrived = TemplateOp::none;
  for (int i = 0; i < cp; ++i) {
    if (arrived != TemplateOp::none) w.wait(arrived);
    if (i + 1 < cp)
      arrived = w.communicate_after(arrived == TemplateOp::none ? source : arrived,
                                    OpKind::cp_exchange, Stream::cp, hop, i);
    Kernel step = compute / cp;
    step.blocks = compute.blocks;  // all queries, against a part of the keys
    w.compute(OpKind::attention, i > 0 ? step + kernels_.traffic(correction) : step, i);
  }
}

void LayerTemplates::attention_forward(TemplateWriter& w) const {
  const double batch = static_cast<double>(s_.batch.micro),
               sequence = static_cast<double>(s_.batch.sequence);
  const Attention a{batch,    z_.heads, z_.head_dim, sequence / s_.parallel.cp,
                    sequence, 0.5,      dtype(false)};
  const Kernel whole = kernels_.attention_forward(a);
  if (s_.parallel.cp == 1) {
    w.compute(OpKind::attention, whole);
    return;
  }
  context_ring(w, whole, {2 * z_.tokens * z_.kv_features * 2},
               {z_.tokens * z_.head_features * ring_correction_bytes});
}

void LayerTemplates::attention_backward(TemplateWriter& w) const {
  const double batch = static_cast<double>(s_.batch.micro),
               sequence = static_cast<double>(s_.batch.sequence);
  const int cp = s_.parallel.cp;
  const Attention a{batch, z_.heads, z_.head_dim, sequence / cp, sequence, 0.5, dtype(false)};
  const Kernel whole = kernels_.attention_backward(a);
  if (cp == 1) {
    w.compute(OpKind::attention, whole);
    return;
  }
  // Hop i runs beside step i. Hop 0 carries keys and values, the middle ones also the gradients
  // that step i-1 made, the last one gradients only; step i works on what hop i-1 brought.
  const Bytes block{2 * z_.tokens * z_.kv_features * 2};
  const auto hop = [&](double blocks) {
    return collective_cost(Collective::send_recv, block * blocks, groups_.cp, s_.cluster);
  };
  int32_t arrived = TemplateOp::none;
  for (int i = 0; i < cp; ++i) {
    const double blocks = i == 0 || i + 1 == cp ? 1 : 2;
    const int32_t next = w.communicate(OpKind::cp_exchange, Stream::cp, hop(blocks), i);
    if (arrived != TemplateOp::none) w.wait(arrived);
    Kernel step = whole / cp;
    step.blocks = whole.blocks;
    w.compute(OpKind::attention, step, i);
    arrived = next;
  }
  w.wait(arrived);
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
  return {.fp8 = quantised(s, layer), .moe = s.model.moe.at(layer)};
}

void LayerTemplates::forward_layer_into(TemplateWriter& w, LayerKind kind,
                                        bool cast_weights) const {
  const bool fp8 = kind.fp8;
  const double sharded = z_.local_tokens * z_.hidden;
  const double add_bytes = residual_bytes + (s_.model.hidden_dropout ? dropout_mask_bytes : 0);
  const double passes = s_.cluster.stack.fused_activation ? 1 : 2;
  w.capture(s_.graph_attention);
  if (fp8 && cast_weights) {
    double weights = 0;
    for (const Gemm& g : {z_.qkv(), z_.proj(), z_.fc1(), z_.fc2()}) weights += g.n * g.k;
    quantize(w, weights);
  }

  norm_forward(w);
  if (fp8) quantize(w, sharded);
  column_forward(
      w, {OpKind::qkv_gemm, z_.qkv(), TpGemm::qkv_fprop, TpGemm::qkv_dgrad, TpGemm::qkv_wgrad},
      fp8);
  if (s_.model.query_groups < s_.parallel.tp)
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp_cost(Collective::all_gather, z_.tokens * z_.qkv_features * s_.parallel.tp * 2));
  query_key_norms(w, norm_forward_bytes);
  if (rope_passes() > 0)
    w.compute(OpKind::rope, kernels_.streaming({z_.tokens * (z_.head_features + z_.kv_features) *
                                                rope_bytes * rope_passes()}));
  attention_forward(w);
  if (fp8) quantize(w, z_.tokens * z_.head_features);
  row_forward(w, {OpKind::proj_gemm, z_.proj(), TpGemm::proj_fprop, TpGemm::proj_dgrad}, fp8);
  w.compute(OpKind::residual, kernels_.streaming({sharded * add_bytes * passes}));

  w.capture(s_.graph_mlp);
  mlp_forward(w, fp8);
  w.compute(OpKind::residual, kernels_.streaming({sharded * add_bytes * passes}));
}

Template LayerTemplates::layer_forward(LayerKind kind, bool cast_weights) const {
  TemplateWriter w(Pass::forward);
  forward_layer_into(w, kind, cast_weights);
  return std::move(w).finish(launch());
}

Template LayerTemplates::layer_backward(LayerKind kind, bool again) const {
  const bool fp8 = kind.fp8;
  TemplateWriter w(Pass::recompute);
  const double sharded = z_.local_tokens * z_.hidden;
  const double passes = s_.cluster.stack.fused_activation ? 1 : 2;
  const RecomputeModules modules = again ? RecomputeModules{} : s_.recompute_modules;
  if (again) forward_layer_into(w, kind, false);

  w.set_pass(Pass::backward);
  w.capture(s_.graph_mlp);
  if (s_.model.hidden_dropout)
    w.compute(OpKind::residual, kernels_.streaming({sharded * (4 + dropout_mask_bytes)}));
  if (modules.mlp) {
    w.set_pass(Pass::recompute);
    mlp_forward(w, fp8);
    w.set_pass(Pass::backward);
  }
  row_backward(w, {OpKind::fc2_gemm, z_.fc2(), TpGemm::fc2_fprop, TpGemm::fc2_dgrad}, fp8);
  w.compute(OpKind::activation,
            kernels_.streaming({z_.tokens * z_.ffn * 2 * (2 * z_.glu + 1) * passes}));
  if (fp8) quantize(w, z_.tokens * z_.ffn * z_.glu);
  column_backward(
      w, {OpKind::fc1_gemm, z_.fc1(), TpGemm::fc1_fprop, TpGemm::fc1_dgrad, TpGemm::fc1_wgrad},
      fp8);
  norm_backward(w);

  w.capture(s_.graph_attention);
  if (s_.model.hidden_dropout)
    w.compute(OpKind::residual, kernels_.streaming({sharded * (4 + dropout_mask_bytes)}));
  row_backward(w, {OpKind::proj_gemm, z_.proj(), TpGemm::proj_fprop, TpGemm::proj_dgrad}, fp8);
  if (modules.core_attn) {
    w.set_pass(Pass::recompute);
    attention_forward(w);
    w.set_pass(Pass::backward);
  }
  attention_backward(w);
  // Rotation of dq and dk, and the copy that joins dq, dk, dv into one gradient.
  w.compute(OpKind::rope, kernels_.streaming({z_.tokens * ((z_.head_features + z_.kv_features) *
                                                               rope_bytes * rope_passes() +
                                                           z_.qkv_features * 4)}));
  query_key_norms(w, norm_backward_bytes);
  // The forward gathered every rank's slice of q, k and v: their gradients are summed and cut
  // again.
  if (s_.model.query_groups < s_.parallel.tp)
    w.exposed(
        OpKind::tp_reduce_scatter, Stream::tp,
        tp_cost(Collective::reduce_scatter, z_.tokens * z_.qkv_features * s_.parallel.tp * 2));
  if (fp8) quantize(w, z_.tokens * z_.qkv_features);
  column_backward(
      w, {OpKind::qkv_gemm, z_.qkv(), TpGemm::qkv_fprop, TpGemm::qkv_dgrad, TpGemm::qkv_wgrad},
      fp8);
  norm_backward(w);
  return std::move(w).finish(launch());
}

}  // namespace stepsim
