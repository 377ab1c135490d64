// The waist of the program: an immutable graph of tasks. It knows time, not training.
//
// A task runs for `duration` seconds at full speed once all its predecessors allow it:
//   finish-to-start edge u -> v:        start(v) >= finish(u)
//   start-to-start edge u -> v, lag L:  start(v) >= start(u) + L      (launch order, host launches)
// Stream order is just edges: a task added to a stream follows the stream's last task.
// Law: a graph whose edges form a cycle cannot finish; the engine reports the cycle, not a number.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/engine/claims.h"

namespace stepsim {

/// Immutable; made by TaskGraphBuilder. All spans are indexed by task unless said.
class TaskGraph {
 public:
  TaskGraph(TaskGraph&&) noexcept;
  TaskGraph& operator=(TaskGraph&&) noexcept;
  ~TaskGraph();

  uint32_t task_count() const { return static_cast<uint32_t>(durations_seconds.size()); }

  std::span<const double> durations_seconds;
  std::span<const StreamId> streams;
  std::span<const uint64_t> labels;  ///< opaque here; lower/label.h says what they mean
  std::span<const uint32_t> predecessor_counts;
  std::span<const uint32_t> finish_offsets;  ///< CSR rows of finish-to-start edges, size tasks + 1
  std::span<const uint32_t> finish_targets;
  std::span<const uint32_t> start_offsets;  ///< CSR rows of start-to-start edges; empty if none
  std::span<const uint32_t> start_targets;
  std::span<const double> start_lags_seconds;
  std::span<const FlowRow> flows;  ///< tasks that claim resources, in ascending task order
  std::span<const ClaimSet> claim_sets;
  std::span<const Claim> claims;
  std::span<const ProcessorClaim> processor_claims;
  std::span<const double> capacities;    ///< by resource
  std::span<const uint32_t> pool_sizes;  ///< processors by pool

  /// The in-order queue of a task: its stream, or one of its own.
  uint64_t queue_of(TaskId task) const {
    const StreamId stream = streams[index(task)];
    return stream == no_stream ? (uint64_t{1} << 32) + index(task) : uint64_t{index(stream)};
  }
  std::span<const Claim> claims_of(const FlowRow& flow) const {
    const ClaimSet& set = claim_sets[index(flow.set)];
    return claims.subspan(set.first_claim, set.last_claim - set.first_claim);
  }
  std::span<const ProcessorClaim> processor_claims_of(const FlowRow& flow) const {
    return processor_claims_of(flow.set);
  }
  std::span<const ProcessorClaim> processor_claims_of(ClaimSetId id) const {
    const ClaimSet& set = claim_sets[index(id)];
    return processor_claims.subspan(set.first_processor, set.last_processor - set.first_processor);
  }

 private:
  friend class TaskGraphBuilder;
  struct Storage;
  explicit TaskGraph(std::unique_ptr<Storage> storage);
  std::unique_ptr<Storage> storage_;
};

}  // namespace stepsim
