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
    const ClaimSet& set = claim_sets[index(flow.set)];
    return processor_claims.subspan(set.first_processor, set.last_processor - set.first_processor);
  }

 private:
  friend class TaskGraphBuilder;
  struct Storage;
  explicit TaskGraph(std::unique_ptr<Storage> storage);
  std::unique_ptr<Storage> storage_;
};

/// Collects tasks and edges; `build` freezes them. Durations and lags must be finite and >= 0.
class TaskGraphBuilder {
 public:
  explicit TaskGraphBuilder(uint32_t stream_count) : tails_(stream_count, no_task) {}
  void reserve(size_t tasks, size_t finish_edges, size_t start_edges);

  TaskId add_task(double duration_seconds, StreamId stream, uint64_t label) {
    const TaskId id = add_unchained(duration_seconds, stream, label);
    if (stream != no_stream) chain(stream, id);
    return id;
  }
  /// A task that is on a stream but takes its place in the queue later, by `chain`.
  TaskId add_unchained(double duration_seconds, StreamId stream, uint64_t label) {
    const TaskId id{static_cast<uint32_t>(durations_.size())};
    durations_.push_back(duration_seconds);
    streams_.push_back(stream);
    labels_.push_back(label);
    return id;
  }
  /// `task` follows the stream's last task and becomes its last; a rendezvous joins many streams.
  void chain(StreamId stream, TaskId task) {
    TaskId& tail = tails_[index(stream)];
    if (tail != no_task) add_edge(tail, task);
    tail = task;
  }
  /// start(to) >= finish(from).
  void add_edge(TaskId from, TaskId to) {
    sources_.push_back(index(from));
    targets_.push_back(index(to));
  }
  /// start(to) >= start(from) + lag.
  void add_start_edge(TaskId from, TaskId to, double lag_seconds);
  ResourceId add_resource(double capacity_units_per_second);
  PoolId add_pool(uint32_t processors);
  ClaimSetId add_claims(std::span<const Claim> claims,
                        std::span<const ProcessorClaim> processors = {});
  /// All of a task's claims at once; `latency_seconds` <= duration. Call at most once a task.
  void set_claims(TaskId task, double latency_seconds, ClaimSetId set);
  void set_claims(TaskId task, double latency_seconds, std::span<const Claim> claims) {
    set_claims(task, latency_seconds, add_claims(claims));
  }

  TaskId tail(StreamId stream) const { return tails_[index(stream)]; }  ///< no_task when empty
  uint32_t task_count() const { return static_cast<uint32_t>(durations_.size()); }
  double duration_seconds(TaskId t) const { return durations_[index(t)]; }
  TaskGraph build() &&;

 private:
  std::vector<double> durations_, start_lags_, capacities_;
  std::vector<StreamId> streams_;
  std::vector<uint64_t> labels_;
  std::vector<uint32_t> sources_, targets_, start_sources_, start_targets_;
  std::vector<FlowRow> flows_;
  std::vector<ClaimSet> claim_sets_;
  std::vector<Claim> claims_;
  std::vector<ProcessorClaim> processor_claims_;
  std::vector<uint32_t> pool_sizes_;
  std::vector<TaskId> tails_;
};

}  // namespace stepsim
