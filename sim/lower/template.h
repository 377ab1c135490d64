// A template: the tasks of one module pass (a layer's forward, its backward, the head ...) on one
// device, with times. Every microbatch stamps it into the graph, so costs and dependencies are
// worked out once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/base/units.h"
#include "sim/cost/kernel.h"
#include "sim/engine/claims.h"
#include "sim/lower/label.h"
#include "sim/lower/meeting.h"
#include "sim/network/collective.h"

namespace stepsim {

/// How a kernel uses SMs; its pool is not set.
ProcessorClaim runner_of(const Kernel& kernel);

/// One task to be stamped. Operations of one stream follow each other without being told.
struct TemplateOp {
  static constexpr int32_t none = -1;      ///< no dependency
  static constexpr int32_t previous = -2;  ///< the compute task before the template

  double duration_seconds = 0;
  double latency_seconds = 0;  ///< communication: part that moves no bytes
  double launch_lag_seconds =
      0;  ///< host time from the start of the template's launches to this one
  double nvlink_rate = 0, nic_rate = 0;  ///< link load while bytes move, bytes/s
  double memory_rate = 0;                ///< memory traffic at full speed, bytes/s
  ProcessorClaim runner;                 ///< of a kernel, without its pool
  uint32_t sms = 0;                      ///< that a communication kernel holds
  std::array<int32_t, 3> after{none, none,
                               none};  ///< operations of this template, beside stream order
  OpKind op{};
  Pass pass{};
  Stream stream = Stream::compute;
  Meeting group = Meeting::count;  ///< whom communication meets; count: as its kind says
  uint8_t part = 0;
  bool userbuffers = false;  ///< communication of Transformer Engine's userbuffers, not of NCCL
  bool captured = false;     ///< inside a CUDA graph: its first operation launches all of it
  bool launch_edge = true;   ///< false when earlier launches imply this one
  int launches = 1;          ///< kernels that this one stands for, each launched
  bool other = false;        ///< belongs to the second of two microbatches
};

/// Operations that the host launches without waiting for the device. `waits_for`: the operation
/// that the host waits for first (a copy to the host that it reads), or none.
struct LaunchSegment {
  int32_t first_op = 0;
  int32_t waits_for = TemplateOp::none;
  double host_seconds = 0;  ///< launching all of it
};

/// Operations in issue order.
struct Template {
  std::vector<TemplateOp> ops;
  std::vector<LaunchSegment> segments;  ///< never empty
};

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
  int launches = 1;
};

/// Builds a template operation by operation.
class TemplateWriter {
 public:
  explicit TemplateWriter(Pass pass) : pass_(pass) {}
  void set_pass(Pass pass) { pass_ = pass; }
  Pass pass() const { return pass_; }
  /// What follows belongs to the second of two microbatches, or not.
  void set_other(bool other) { other_ = other; }
  /// A weight gradient: here, or put off until `flush_weights`. `launches` as above.
  void weight(OpKind op, const Kernel& kernel, int launches = 1);
  void defer_weights(bool on) { deferring_ = on; }
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
  /// The operation before this call stands for `count` kernels that are launched one by one.
  void launches(int count) { template_.ops.back().launches = count; }
  /// The operation before this call is one of that group.
  void among(Meeting group) { template_.ops.back().group = group; }
  /// The next kernel waits for `op`.
  void wait(int32_t op) { pending_.push_back(op); }
  int32_t last_compute() const { return last_compute_; }
  /// A collective that the next kernel waits for: exposed.
  void exposed(OpKind op, Stream stream, const CollectiveCost& cost) {
    wait(communicate(op, stream, cost));
  }

  /// Fixes launch times. Drops launch edges that stream order and earlier launches imply (exact,
  /// not a heuristic).
  Template finish(LaunchCost launch) &&;

 private:
  Pass pass_;
  bool captured_ = false, other_ = false, deferring_ = false;
  std::vector<DeferredKernel> deferred_;
  Template template_;
  std::vector<int32_t> pending_;
  int32_t last_compute_ = TemplateOp::previous;
};

}  // namespace stepsim
