#include "sim/engine/execution.h"

#include <algorithm>
#include <utility>

#include "sim/engine/deadlock.h"

namespace stepsim {

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

/// Marks the tasks with a claim on a contended resource or pool as shared.
void Execution::share(std::vector<uint8_t> contended, std::vector<uint8_t> pools) {
  bool any = false;
  const std::vector<uint8_t> by_set = shared_sets(graph_, contended);
  roles_.reserve(graph_.claim_sets.size());
  for (uint32_t s = 0; s < graph_.claim_sets.size(); ++s) {
    unsigned roles = 0;
    for (const ProcessorClaim& claim : graph_.processor_claims_of(ClaimSetId{s}))
      if (pools[index(claim.pool)] != 0) roles |= role_bit(claim.role);
    roles_.push_back(static_cast<uint8_t>(roles));
  }
  for (uint32_t f = 0; f < graph_.flows.size(); ++f) {
    const FlowRow& flow = graph_.flows[f];
    const bool moves = flow.latency_seconds < graph_.durations_seconds[index(flow.task)];
    if (!(moves && by_set[index(flow.set)]) && roles_[index(flow.set)] == 0) continue;
    const uint32_t task = index(flow.task);
    pending_[task].waiting_for |= shared_bit;
    timeline_.binding[task] = TaskId{f};  // its place for the flow's row until the task is ready
    any = true;
  }
  if (!any) return;
  fair_share_ = std::make_unique<FairShare>(graph_, contended);
  pools_ = std::make_unique<ProcessorPools>(graph_, std::move(pools));
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

Deadlock Execution::deadlock() const {
  std::vector<uint8_t> unresolved(graph_.task_count());
  for (uint32_t task = 0; task < graph_.task_count(); ++task) {
    unresolved[task] = (pending_[task].waiting_for & ~shared_bit) != 0;
  }
  Deadlock deadlock = find_deadlock(graph_, unresolved);
  deadlock.reached_seconds = timeline_.makespan_seconds;
  return deadlock;
}

}  // namespace stepsim
