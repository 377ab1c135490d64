#include "sim/engine/engine.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>
#include <vector>

#include "sim/engine/deadlock.h"
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

/// A flow's arrival at its resources or, once arrived, its finish; out of date unless it is the
/// flow's finish now.
struct Event {
  double time_seconds;
  uint32_t task;
  uint32_t flow;  ///< row in TaskGraph::flows
};
constexpr auto later = [](const Event& a, const Event& b) {
  return a.time_seconds > b.time_seconds || (a.time_seconds == b.time_seconds && a.task > b.task);
};

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
  void finish_flow(Event completion);
  void push(Event event);
  void drop_outdated_events();
  Event pop();

  /// When a shared task's flow finishes, as long as no speed changes.
  struct Progress {
    double finish_seconds = 0;
    bool arrived = false;
  };

  const TaskGraph& graph_;
  Timeline timeline_;
  std::unique_ptr<Pending[]> pending_;
  std::unique_ptr<uint32_t[]> worklist_;  ///< room for every task; pages never used cost nothing
  uint32_t resolved_ = 0;
  std::vector<Progress> progress_;  ///< by flow row
  std::vector<Event> events_;       ///< heap, earliest first
  size_t live_ = 0;  ///< events that are not out of date: one for each flow ready and not finished
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
    const FlowRow& row = graph_.flows[f];
    const auto claims = graph_.claims.subspan(row.first_claim, row.last_claim - row.first_claim);
    const uint32_t task = index(row.task);
    if (row.latency_seconds >= graph_.durations_seconds[task]) continue;
    if (std::none_of(claims.begin(), claims.end(),
                     [&](const Claim& c) { return c.rate > 0 && contended[index(c.resource)]; })) {
      continue;
    }
    pending_[task].waiting_for |= shared_bit;
    timeline_.binding[task] = TaskId{f};  // its place for the flow's row until the task is ready
    any = true;
  }
  if (!any) return;
  progress_.resize(graph_.flows.size());
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
  ++live_;
  push({timeline_.start_seconds[task] + graph_.flows[flow].latency_seconds, task, flow});
}

/// Flows in time order. All that happens at one instant happens before speeds are settled, so a
/// speed that would last for no time leaves no trace, not even a rounding.
void Execution::run_flows() {
  while (!events_.empty()) {
    const double now = events_.front().time_seconds;
    while (!events_.empty() && events_.front().time_seconds == now) {
      const Event event = pop();
      const Progress& progress = progress_[event.flow];
      if (!progress.arrived) {
        begin_flow(event);
      } else if (progress.finish_seconds == now) {
        finish_flow(event);
      }
    }
    for (const SpeedChange& change : fair_share_->settle()) {
      double& finish = progress_[change.flow].finish_seconds;
      finish = now + (finish - now) * (change.before / change.after);
      push({finish, index(graph_.flows[change.flow].task), change.flow});
    }
  }
}

void Execution::begin_flow(Event arrival) {
  const double finish =
      timeline_.start_seconds[arrival.task] + graph_.durations_seconds[arrival.task];
  progress_[arrival.flow] = {.finish_seconds = finish, .arrived = true};
  fair_share_->join(arrival.flow);
  push({finish, arrival.task, arrival.flow});
}

void Execution::finish_flow(Event completion) {
  const auto [finish, task, flow] = completion;
  progress_[flow].finish_seconds = -1;  // what is left of its events is out of date
  --live_;
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

void Execution::push(Event event) {
  if (events_.size() > 64 + 4 * live_) drop_outdated_events();
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end(), later);
}

/// Every change of speed leaves an event behind; this keeps their number in proportion to the
/// flows.
void Execution::drop_outdated_events() {
  std::erase_if(events_, [&](const Event& event) {
    const Progress& progress = progress_[event.flow];
    return progress.arrived && progress.finish_seconds != event.time_seconds;
  });
  std::make_heap(events_.begin(), events_.end(), later);
}

Event Execution::pop() {
  std::pop_heap(events_.begin(), events_.end(), later);
  const Event event = events_.back();
  events_.pop_back();
  return event;
}

Deadlock Execution::deadlock() const {
  std::vector<uint8_t> unresolved(graph_.task_count());
  for (uint32_t task = 0; task < graph_.task_count(); ++task) {
    unresolved[task] = (pending_[task].waiting_for & ~shared_bit) != 0;
  }
  return find_deadlock(graph_, unresolved);
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
