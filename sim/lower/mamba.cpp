// The mixing half of a decoder layer, and of it those that mix by a recurrence: Mamba-2 and gated
// delta nets. Order after Megatron-Core ssm/mamba_mixer.py and ssm/gated_delta_net.py: norm and
// column-parallel projection, causal convolution, scan, gated norm, row-parallel projection,
// residual.
#include "sim/cost/mixer_sizes.h"
#include "sim/lower/elementwise.h"
#include "sim/lower/linear.h"

namespace stepsim {

namespace {
/// Over the forward's bytes. Convolution: done again, for its output is not kept (state-spaces
/// mamba, ssd_combined.py, MambaSplitConv1dScanCombinedFn), then reads its input and the gradient
/// and writes one, where the forward reads and writes one. Gated norm: reads two inputs and the
/// gradient and writes two, where the forward reads two and writes one.
constexpr double conv_backward_passes = 1 + 3.0 / 2, gate_backward_passes = 5.0 / 3;
constexpr double mixer_reorder_bytes = 4;  ///< read and write

/// Under context parallelism a rank scans all tokens for its share of the heads
/// (ssm/mamba_context_parallel.py): tokens against heads before the convolution, and back.
void swap_heads(TemplateWriter& w, const Scenario& s, const KernelModel& kernels,
                const GroupPlacement& group, double elements) {
  if (s.parallel.cp == 1) return;
  const Kernel reorder = kernels.streaming({elements * mixer_reorder_bytes});
  w.compute(OpKind::permute, reorder);
  w.exposed(OpKind::cp_all_to_all, Stream::cp,
            collective_cost(Collective::all_to_all, {elements * 2}, group, s.cluster));
  w.compute(OpKind::permute, reorder);
}
}  // namespace

double LayerTemplates::mixer_weights(LayerKind kind) const {
  if (kind.mixer == Mixer::none) return 0;
  if (kind.mixer == Mixer::attention) return attention_weights();
  const MixerSizes m = mixer_sizes(s_, z_, kind.mixer);
  return m.in.n * m.in.k + m.out.n * m.out.k;
}

// Both projections share the MLP's userbuffers.
void LayerTemplates::mixer_block_forward(TemplateWriter& w, LayerKind kind) const {
  if (kind.mixer == Mixer::none) return;
  if (kind.mixer == Mixer::attention) return attention_block_forward(w, kind);
  const MixerSizes m = mixer_sizes(s_, z_, kind.mixer);
  w.capture(s_.graph_mixer);
  norm_forward(w);
  if (kind.fp8) quantize(w, z_.local_tokens * z_.hidden);
  column_forward(w,
                 {OpKind::mamba_in, m.in, TpGemm::fc1_fprop, TpGemm::fc1_dgrad, TpGemm::fc1_wgrad},
                 kind.fp8);
  swap_heads(w, s_, kernels_, groups_.cp, m.in.m * m.in.n);
  w.compute(OpKind::mamba_conv, kernels_.streaming({m.conv_bytes}));
  w.compute(OpKind::mamba_scan, kernels_.scan_forward(m.scan));
  swap_heads(w, s_, kernels_, groups_.cp, m.out.m * m.out.k);
  w.compute(OpKind::norm, kernels_.streaming({m.gate_bytes}));
  if (kind.fp8) quantize(w, m.out.m * m.out.k);
  row_forward(w, {OpKind::mamba_out, m.out, TpGemm::fc2_fprop, TpGemm::fc2_dgrad}, kind.fp8);
  residual_forward(w);
}

void LayerTemplates::mixer_block_backward(TemplateWriter& w, LayerKind kind,
                                          RecomputeModules modules) const {
  if (kind.mixer == Mixer::none) return;
  if (kind.mixer == Mixer::attention) return attention_block_backward(w, kind, modules);
  const MixerSizes m = mixer_sizes(s_, z_, kind.mixer);
  w.capture(s_.graph_mixer);
  dropout_backward(w);
  if (modules.gdn_norm_out && kind.mixer == Mixer::delta_net) {
    w.set_pass(Pass::recompute);
    w.compute(OpKind::norm, kernels_.streaming({m.gate_bytes}));
    w.set_pass(Pass::backward);
  }
  row_backward(w, {OpKind::mamba_out, m.out, TpGemm::fc2_fprop, TpGemm::fc2_dgrad}, kind.fp8);
  w.compute(OpKind::norm, kernels_.streaming({m.gate_bytes * gate_backward_passes}));
  swap_heads(w, s_, kernels_, groups_.cp, m.out.m * m.out.k);
  w.compute(OpKind::mamba_scan, kernels_.scan_backward(m.scan));
  w.compute(OpKind::mamba_conv, kernels_.streaming({m.conv_bytes * conv_backward_passes}));
  swap_heads(w, s_, kernels_, groups_.cp, m.in.m * m.in.n);
  if (kind.fp8) quantize(w, m.in.m * m.in.n, Operand::gradient);
  column_backward(w,
                  {OpKind::mamba_in, m.in, TpGemm::fc1_fprop, TpGemm::fc1_dgrad, TpGemm::fc1_wgrad},
                  kind.fp8);
  norm_backward(w);
}

}  // namespace stepsim
