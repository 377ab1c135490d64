// Builds templates operation by operation.
#pragma once

#include <vector>

#include "sim/config/kernel_times.h"
#include "sim/cost/kernel.h"
#include "sim/lower/template.h"
#include "sim/network/collective.h"

namespace stepsim {

/// How a kernel uses SMs; its pool is not set.
ProcessorClaim runner_of(const Kernel& kernel);

/// The kernel with what costs.kernels says of it. It asks no more of the memory than before.
Kernel with_time(const Kernel& kernel, const KernelTime& time, double slowdown);

/// What launching costs the host: a launch a kernel and framework work an operator, or one launch
/// of a captured graph. Pieces of a split operator and peer copies are issued inside one call: they
/// cost their launch only.
struct LaunchCost {
  Seconds launch, dispatch, graph;
};

/// A weight gradient that is put off.
struct DeferredKernel {
  OpKind op{};
  Kernel kernel;
  int count = 1;
};

/// Builds a template operation by operation.
class TemplateWriter {
 public:
  explicit TemplateWriter(Pass pass) : pass_(pass) {}
  void set_pass(Pass pass) { pass_ = pass; }
  Pass pass() const { return pass_; }
  /// What follows belongs to the second of two microbatches, or not.
  void set_other(bool other) { other_ = other; }
  /// Gradients of `count` weights, each with a launch: here, or put off until `flush_weights`.
  void weight(OpKind op, const Kernel& kernel, int count = 1);
  /// What follows are linears whose weights are frozen: they have no weight gradients.
  void freeze(bool on) { frozen_ = on; }
  bool frozen() const { return frozen_; }
  void defer_weights(bool on) { deferring_ = on; }
  bool deferring() const { return deferring_; }
  void flush_weights();
  /// Those put off are another template's.
  std::vector<DeferredKernel> take_deferred() { return std::move(deferred_); }
  void put_deferred(std::vector<DeferredKernel> kernels) { deferred_ = std::move(kernels); }
  /// What follows is inside a CUDA graph, or not.
  void capture(bool on) { captured_ = on; }

  /// A kernel on the compute stream; consumes the pending waits. Returns its index.
  int32_t compute(OpKind op, const Kernel& kernel, int part = 0);
  /// A collective or transfer on `stream`, behind operation `after` (default: the last compute
  /// operation).
  int32_t communicate(OpKind op, Stream stream, const CollectiveCost& cost, int part = 0);
  int32_t communicate_after(int32_t after, OpKind op, Stream stream, const CollectiveCost& cost,
                            int part = 0);
  /// What follows is launched only after the host has seen `op` finish (a copy to the host and the
  /// wait for it). Inside a CUDA graph there is none.
  void host_sync(int32_t op);
  /// The operation before this call stands for `count` kernels that one operator launches one by
  /// one.
  void launches(int count) { template_.ops.back().launches = count; }
  /// The same of operators with a kernel each.
  void operators(int count) {
    template_.ops.back().launches = template_.ops.back().operators = count;
  }
  /// What follows is a node of the combined schedule: a call of its own that waits, detaches and
  /// records, or starts the autograd engine (Megatron-Core pipeline_parallel/utils.py,
  /// ScheduleNode). It costs the host one operator, inside a partial CUDA graph too.
  void schedule_node() { ++nodes_; }
  /// The operation before this call is issued by an operator that is counted already.
  void within_operator() { template_.ops.back().operators = 0; }
  /// The operation before this call is one of that group.
  void among(Meeting group) { template_.ops.back().group = group; }
  /// The next kernel waits for `op`.
  void wait(int32_t op) { pending_.push_back(op); }
  int32_t last_compute() const { return last_compute_; }
  /// A collective that the next kernel waits for: exposed.
  void exposed(OpKind op, Stream stream, const CollectiveCost& cost) {
    wait(communicate(op, stream, cost));
  }

  /// Lets costs.kernels have its say; given times hold for a device that is `slowdown` times
  /// slower.
  void replace_times(const KernelTimes& times, double slowdown);
  /// Fixes launch times. Drops launch edges that stream order and earlier launches imply (exact,
  /// not a heuristic).
  Template finish(LaunchCost launch) &&;

 private:
  void compute_weight(OpKind op, const Kernel& kernel, int launches);
  Pass pass_;
  bool captured_ = false, other_ = false, deferring_ = false, frozen_ = false;
  std::vector<DeferredKernel> deferred_;
  Template template_;
  std::vector<int32_t> pending_;
  int32_t last_compute_ = TemplateOp::previous;
  int nodes_ = 0;
};

}  // namespace stepsim
