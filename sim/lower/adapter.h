// A frozen linear module's adapter: its products, and what tensor-parallel ranks exchange for them
// (Megatron-Bridge peft/lora_layers.py, peft/utils.py, ParallelLinearAdapter). They are 16 bit and
// none of their collectives is under userbuffers.
#pragma once

#include "sim/cost/adapters.h"
#include "sim/lower/layer_groups.h"
#include "sim/lower/template_writer.h"

namespace stepsim {

/// Writes an adapter behind its module's forward, and before its module's backward. Keeps
/// references: what it is made of must outlive it.
class AdapterBlock {
 public:
  AdapterBlock(const Scenario& scenario, const LayerGroups& groups, const KernelModel& kernels)
      : s_(scenario), groups_(groups), kernels_(kernels) {}
  /// The module whose GEMM is called so has one.
  bool beside(OpKind module) const;
  void column_forward(TemplateWriter& w, const Gemm& base) const;
  void column_backward(TemplateWriter& w, const Gemm& base) const;
  void row_forward(TemplateWriter& w, const Gemm& base) const;
  void row_backward(TemplateWriter& w, const Gemm& base) const;

 private:
  bool sequence_parallel() const { return s_.parallel.sequence_parallel && s_.parallel.tp > 1; }
  /// Under userbuffers the norm returns this rank's tokens only; else what it gathered for the
  /// module serves the adapter too.
  bool gathers_itself() const { return sequence_parallel() && s_.overlap.tp_comm_overlap; }
  void product(TemplateWriter& w, const Gemm& gemm, int part) const;
  void scale(TemplateWriter& w, double tokens) const;
  void add(TemplateWriter& w, double elements) const;
  void drop(TemplateWriter& w, double elements) const;
  void weight(TemplateWriter& w, const Gemm& forward) const;
  void out_backward(TemplateWriter& w, const Gemm& out) const;
  CollectiveCost tp(Collective op, double bytes) const;

  const Scenario& s_;
  const LayerGroups& groups_;
  const KernelModel& kernels_;
};

}  // namespace stepsim
