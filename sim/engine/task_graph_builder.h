// Makes task graphs: tasks, edges, claims in any order, then `build`.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/task_graph.h"

namespace stepsim {

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
  void add_edge(TaskId from, TaskId to) { edges_.emplace_back(index(from), index(to)); }
  /// start(to) >= start(from) + lag.
  void add_start_edge(TaskId from, TaskId to, double lag_seconds) {
    start_edges_.push_back({index(from), index(to), lag_seconds});
  }
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
  struct StartEdge {
    uint32_t from = 0, to = 0;
    double lag_seconds = 0;
  };
  std::vector<double> durations_, capacities_;
  std::vector<StreamId> streams_;
  std::vector<uint64_t> labels_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;  ///< from, to
  std::vector<StartEdge> start_edges_;
  std::vector<FlowRow> flows_;
  std::vector<ClaimSet> claim_sets_;
  std::vector<Claim> claims_;
  std::vector<ProcessorClaim> processor_claims_;
  std::vector<uint32_t> pool_sizes_;
  std::vector<TaskId> tails_;
};

}  // namespace stepsim
