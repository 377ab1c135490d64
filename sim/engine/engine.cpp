#include "sim/engine/engine.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "sim/engine/deadlock.h"
#include "sim/engine/event_heap.h"
#include "sim/engine/fair_share.h"

namespace stepsim {
namespace {

// Set in `Pending::waiting_for` of shared tasks, so that the worklist tells them apart for free.
constexpr uint32_t shared_bit = uint32_t{1} << 31;

/// What is known of a task before it starts; 16 bytes, so one cache line serves an edge.
struct Pending {
  double ready_seconds;  ///< latest constraint so far
  uint32_t binding;      ///< whose constraint that is; ties: the smallest id
  uint32_t waiting_for;  ///< constraints still to come, and `shared_bit`
};
static_assert(sizeof(Pending) == 16);

/// One run of one graph.
class Execution {
 public:
  explicit Execution(const TaskGraph& graph);

  void share(std::vector<uint8_t> contended);
  void resolve_roots();
  void run_flows();

  bool finished() const { return resolved_ == graph_.task_count(); }
  Timeline take_timeline() && { return std::move(timeline_); }
  Deadlock deadlock() const;

 private:
  void deliver(uint32_t from, double constraint_seconds, uint32_t to, uint32_t*& top);
  void deliver_starts(uint32_t task, double start_seconds, uint32_t*& top);
  void resolve(uint32_t* top);
  void arrive(uint32_t task);
  void begin_flow(Event arrival);
  void finish_flow(Event event);
  void expect_finish(uint32_t flow);

  const TaskGraph& graph_;
  Timeline timeline_;
  std::unique_ptr<Pending[]> pending_;
  std::unique_ptr<uint32_t[]> worklist_;  ///< room for every task; pages never used cost nothing
  uint32_t resolved_ = 0;
  /// By flow row, while it runs: when it ends if no speed changes.
  std::vector<double> flow_finishes_;
  // Apart, because arrivals are known long ahead, and finishes are few but change: each stays
  // small.
  EventHeap arrivals_, finishes_;  ///< a finish that is not in `flow_finishes_` is out of date
  size_t running_ = 0;             ///< flows that arrived and did not finish
  std::unique_ptr<FairShare> fair_share_;
};

Execution::Execution(const TaskGraph& graph) : graph_(graph) {
  const uint32_t tasks = graph.task_count();
  timeline_.start_seconds.resize(tasks);
  timeline_.finish_seconds.resize(tasks);
  timeline_.binding.resize(tasks);
  pending_ = std::make_unique_for_overwrite<Pending[]>(tasks);
  worklist_ = std::make_unique_for_overwrite<uint32_t[]>(tasks);
  for (uint32_t task = 0; task < tasks; ++task) {
    pending_[task] = {.ready_seconds = 0,
                      .binding = index(no_task),
                      .waiting_for = graph.predecessor_counts[task]};
  }
}

/// Marks the tasks with a claim on a contended resource as shared.
void Execution::share(std::vector<uint8_t> contended) {
  bool any = false;
  for (uint32_t f = 0; f < graph_.flows.size(); ++f) {
    if (!is_shared(graph_, graph_.flows[f], contended)) continue;
    const uint32_t task = index(graph_.flows[f].task);
    pending_[task].waiting_for |= shared_bit;
    timeline_.binding[task] = TaskId{f};  // its place for the flow's row until the task is ready
    any = true;
  }
  if (!any) return;
  flow_finishes_.resize(graph_.flows.size());
  fair_share_ = std::make_unique<FairShare>(graph_, std::move(contended));
}

void Execution::resolve_roots() {
  for (uint32_t task = 0; task < graph_.task_count(); ++task) {
    if (graph_.predecessor_counts[task] != 0) continue;
    worklist_[0] = task;
    resolve(&worklist_[1]);
  }
}

/// One constraint on `to`'s start; on the last one `to` goes on the worklist.
inline void Execution::deliver(uint32_t from, double constraint_seconds, uint32_t to,
                               uint32_t*& top) {
  Pending& pending = pending_[to];
  const bool binds = constraint_seconds > pending.ready_seconds ||
                     (constraint_seconds == pending.ready_seconds && from < pending.binding);
  pending.ready_seconds = binds ? constraint_seconds : pending.ready_seconds;
  pending.binding = binds ? from : pending.binding;
  if ((--pending.waiting_for & ~shared_bit) == 0) *top++ = to;
}

void Execution::deliver_starts(uint32_t task, double start_seconds, uint32_t*& top) {
  for (uint32_t e = graph_.start_offsets[task]; e < graph_.start_offsets[task + 1]; ++e) {
    deliver(task, start_seconds + graph_.start_lags_seconds[e], graph_.start_targets[e], top);
  }
}

/// Resolves every task that depends on no flow to come. `top` is one past the last entry of the
/// worklist.
void Execution::resolve(uint32_t* top) {
  const double* const durations = graph_.durations_seconds.data();
  const uint32_t* const offsets = graph_.finish_offsets.data();
  const uint32_t* const targets = graph_.finish_targets.data();
  double* const starts = timeline_.start_seconds.data();
  double* const finishes = timeline_.finish_seconds.data();
  TaskId* const bindings = timeline_.binding.data();
  const uint32_t* const bottom = worklist_.get();
  const bool has_start_edges = !graph_.start_offsets.empty();
  double makespan = timeline_.makespan_seconds;
  uint32_t resolved = 0;
  while (top != bottom) {
    const uint32_t task = *--top;
    const Pending& pending = pending_[task];
    const double start = pending.ready_seconds;
    starts[task] = start;
    if (has_start_edges) deliver_starts(task, start, top);
    if (pending.waiting_for != 0) [[unlikely]] {
      arrive(task);
      continue;
    }
    const double finish = start + durations[task];
    finishes[task] = finish;
    bindings[task] = TaskId{pending.binding};
    makespan = std::max(makespan, finish);
    ++resolved;
    for (uint32_t e = offsets[task]; e < offsets[task + 1]; ++e)
      deliver(task, finish, targets[e], top);
  }
  timeline_.makespan_seconds = makespan;
  resolved_ += resolved;
}

void Execution::arrive(uint32_t task) {
  const uint32_t flow = index(timeline_.binding[task]);
  timeline_.binding[task] = TaskId{pending_[task].binding};
  arrivals_.push({timeline_.start_seconds[task] + graph_.flows[flow].latency_seconds, task, flow});
}

/// Flows in time order. All that happens at one instant happens before speeds are settled, so a
/// speed that would last for no time leaves no trace, not even a rounding.
void Execution::run_flows() {
  for (;;) {
    const double now = std::min(arrivals_.next_seconds(), finishes_.next_seconds());
    if (now == std::numeric_limits<double>::infinity()) return;
    while (finishes_.next_seconds() == now) finish_flow(finishes_.pop());
    while (arrivals_.next_seconds() == now) begin_flow(arrivals_.pop());
    for (const SpeedChange& change : fair_share_->settle()) {
      double& finish = flow_finishes_[change.flow];
      if (change.before != change.after)
        finish = now + (finish - now) * (change.before / change.after);
      expect_finish(change.flow);
    }
  }
}

void Execution::begin_flow(Event arrival) {
  flow_finishes_[arrival.flow] =
      timeline_.start_seconds[arrival.task] + graph_.durations_seconds[arrival.task];
  ++running_;
  fair_share_->join(arrival.flow);
}

void Execution::finish_flow(Event event) {
  const auto [finish, task, flow] = event;
  if (flow_finishes_[flow] != finish) return;
  flow_finishes_[flow] = -1;
  --running_;
  fair_share_->leave(flow);
  timeline_.finish_seconds[task] = finish;
  timeline_.makespan_seconds = std::max(timeline_.makespan_seconds, finish);
  ++resolved_;
  uint32_t* top = worklist_.get();
  for (uint32_t e = graph_.finish_offsets[task]; e < graph_.finish_offsets[task + 1]; ++e) {
    deliver(task, finish, graph_.finish_targets[e], top);
  }
  resolve(top);
}

/// Every change of speed leaves an event behind; they are swept so that they stay in proportion to
/// the flows.
void Execution::expect_finish(uint32_t flow) {
  if (finishes_.size() > 64 + 4 * running_) {
    finishes_.erase_if([&](const Event& e) { return flow_finishes_[e.flow] != e.time_seconds; });
  }
  finishes_.push({flow_finishes_[flow], index(graph_.flows[flow].task), flow});
}

Deadlock Execution::deadlock() const {
  std::vector<uint8_t> unresolved(graph_.task_count());
  for (uint32_t task = 0; task < graph_.task_count(); ++task) {
    unresolved[task] = (pending_[task].waiting_for & ~shared_bit) != 0;
  }
  Deadlock deadlock = find_deadlock(graph_, unresolved);
  deadlock.reached_seconds = timeline_.makespan_seconds;
  return deadlock;
}

}  // namespace

std::variant<Timeline, Deadlock> run(const TaskGraph& graph, EngineOptions options) {
  Execution execution(graph);
  if (options.sharing && !graph.flows.empty()) execution.share(contended_resources(graph));
  execution.resolve_roots();
  execution.run_flows();
  if (!execution.finished()) return execution.deadlock();
  return std::move(execution).take_timeline();
}

}  // namespace stepsim
