#include "sim/engine/engine.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/deadlock.h"
#include "sim/engine/event_heap.h"
#include "sim/engine/fair_share.h"
#include "sim/engine/processors.h"

namespace stepsim {
namespace {

// Set in `Pending::waiting_for` of shared tasks, so that the worklist tells them apart for free.
constexpr uint32_t shared_bit = uint32_t{1} << 31;

using Role = ProcessorClaim::Role;

/// What is known of a task before it starts; 16 bytes, so one cache line serves an edge.
struct Pending {
  double ready_seconds;  ///< latest constraint so far
  uint32_t binding;      ///< whose constraint that is; ties: the smallest id
  uint32_t waiting_for;  ///< constraints still to come, and `shared_bit`
};
static_assert(sizeof(Pending) == 16);

/// A flow from when it is ready until it is done.
struct Shared {
  uint32_t flow = 0;            ///< row in TaskGraph::flows
  uint32_t waves = 0;           ///< of runners, that it waits for
  double finish_seconds = -1;   ///< when it ends if no speed changes; below 0: it is done
  double wave_end_seconds = 0;  ///< of a runner that somebody waits for
};

/// One run of one graph.
class Execution {
 public:
  explicit Execution(const TaskGraph& graph);

  void share(std::vector<uint8_t> contended, std::vector<uint8_t> pools);
  void resolve_roots();
  void run_flows();

  EngineCounts counts() const;
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
  void complete(Event event);
  void expect_finish(uint32_t slot);
  void place_holders(double now);
  void ask(Event holder);
  void release(std::span<const uint32_t> holders);
  void take_processors(uint32_t slot, double now);
  void settle(double now);
  void expect_wave_end(ProcessorPools::Runner& runner, double now);
  double work(uint32_t slot) const;
  const FlowRow& row_of(uint32_t slot) const { return graph_.flows[slots_[slot].flow]; }
  bool out_of_date(const Event& finish) const;
  double work_done(const ProcessorPools::Runner& runner, double now) const;

  const TaskGraph& graph_;
  Timeline timeline_;
  std::unique_ptr<Pending[]> pending_;
  std::unique_ptr<uint32_t[]> worklist_;  ///< room for every task; pages never used cost nothing
  uint32_t resolved_ = 0;
  std::vector<Shared> slots_;  ///< of flows that are ready or run
  std::vector<uint32_t> free_slots_;
  // Apart, because arrivals are known long ahead, and finishes are few but change: each stays
  // small.
  EventHeap arrivals_, finishes_;  ///< a finish that is not its slot's is out of date
  // Holders ask for their processors when they start, and get them where waves of runners end.
  EventHeap holders_, wave_ends_;         ///< a wave end likewise
  std::vector<uint32_t> ready_, placed_;  ///< holders of this instant
  std::vector<uint32_t> watched_;         ///< runners waited for anew
  size_t running_ = 0;                    ///< flows that arrived and did not finish
  EngineCounts counts_;
  std::unique_ptr<FairShare> fair_share_;
  std::unique_ptr<ProcessorPools> pools_;
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

/// Marks the tasks with a claim on a contended resource or pool as shared.
void Execution::share(std::vector<uint8_t> contended, std::vector<uint8_t> pools) {
  bool any = false;
  const auto uses_pool = [&](const FlowRow& flow) {
    const auto claims = graph_.processor_claims_of(flow);
    return std::any_of(claims.begin(), claims.end(),
                       [&](const ProcessorClaim& c) { return pools[index(c.pool)] != 0; });
  };
  for (uint32_t f = 0; f < graph_.flows.size(); ++f) {
    if (!is_shared(graph_, graph_.flows[f], contended) && !uses_pool(graph_.flows[f])) continue;
    const uint32_t task = index(graph_.flows[f].task);
    pending_[task].waiting_for |= shared_bit;
    timeline_.binding[task] = TaskId{f};  // its place for the flow's row until the task is ready
    any = true;
  }
  if (!any) return;
  fair_share_ = std::make_unique<FairShare>(graph_, std::move(contended));
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

void Execution::arrive(uint32_t task) {
  const uint32_t flow = index(timeline_.binding[task]);
  timeline_.binding[task] = TaskId{pending_[task].binding};
  const double start = timeline_.start_seconds[task];
  auto slot = static_cast<uint32_t>(slots_.size());
  if (free_slots_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[slot] = {.flow = flow, .finish_seconds = start + graph_.durations_seconds[task]};
  for (const ProcessorClaim& claim : graph_.processor_claims_of(graph_.flows[flow])) {
    const bool holds = claim.role == Role::hold || claim.role == Role::take;
    if (holds && pools_->contended(claim.pool)) return holders_.push({start, task, slot});
  }
  arrivals_.push({start + graph_.flows[flow].latency_seconds, task, slot});
}

/// Flows in time order. All that happens at one instant happens before speeds are settled, so a
/// speed that would last for no time leaves no trace, not even a rounding. Holders come last: they
/// see who runs once nothing else happens at that instant.
void Execution::run_flows() {
  for (;;) {
    const double now = std::min({arrivals_.next_seconds(), finishes_.next_seconds(),
                                 holders_.next_seconds(), wave_ends_.next_seconds()});
    if (now == std::numeric_limits<double>::infinity()) return;
    for (bool more = true; more;) {
      while (finishes_.next_seconds() == now) finish_flow(finishes_.pop());
      while (arrivals_.next_seconds() == now) begin_flow(arrivals_.pop());
      more = holders_.next_seconds() == now || wave_ends_.next_seconds() == now || !ready_.empty();
      if (more) place_holders(now);
    }
    settle(now);
  }
}

EngineCounts Execution::counts() const {
  EngineCounts counts = counts_;
  if (fair_share_) counts.solved_flows = fair_share_->solved_flows();
  return counts;
}

void Execution::settle(double now) {
  ++counts_.changes;
  counts_.running_flows += running_;
  pools_->for_each_changed([&](PoolId pool) {
    const uint32_t free = pools_->free(pool);
    for (const ProcessorPools::Runner& runner : pools_->runners(pool))
      fair_share_->set_cap(runner.slot, runner_speed(runner.claim, free));
  });
  for (const SpeedChange& change : fair_share_->settle()) {
    Shared& shared = slots_[change.slot];
    double& finish = shared.finish_seconds;
    if (change.before != change.after)
      finish = now + (finish - now) * (change.before / change.after);
    expect_finish(change.slot);
    if (shared.wave_end_seconds > 0) watched_.push_back(change.slot);
  }
  for (uint32_t slot : watched_) {
    for (const ProcessorClaim& claim : graph_.processor_claims_of(row_of(slot)))
      if (ProcessorPools::Runner* const runner = pools_->runner(slot, claim.pool))
        expect_wave_end(*runner, now);
  }
  watched_.clear();
}

double Execution::work(uint32_t slot) const {
  const FlowRow& row = row_of(slot);
  return graph_.durations_seconds[index(row.task)] - row.latency_seconds;
}

/// Of a runner that begins now no speed is settled yet: it has done nothing.
double Execution::work_done(const ProcessorPools::Runner& runner, double now) const {
  if (runner.since_seconds == now) return 0;
  const double left = (slots_[runner.slot].finish_seconds - now) * fair_share_->speed(runner.slot);
  return std::max(0.0, work(runner.slot) - left);
}

void Execution::expect_wave_end(ProcessorPools::Runner& runner, double now) {
  if (runner.wave_end == 0) return;
  Shared& shared = slots_[runner.slot];
  const double left = std::max(0.0, runner.wave_end - work_done(runner, now));
  // The last wave ends with the kernel, to the bit.
  shared.wave_end_seconds = runner.wave_end >= work(runner.slot)
                                ? shared.finish_seconds
                                : now + left / fair_share_->speed(runner.slot);
  wave_ends_.push({shared.wave_end_seconds, index(row_of(runner.slot).task), runner.slot});
}

void Execution::begin_flow(Event arrival) {
  const FlowRow& row = row_of(arrival.slot);
  if (row.latency_seconds >= graph_.durations_seconds[arrival.task]) return complete(arrival);
  ++running_;
  fair_share_->join(arrival.slot, slots_[arrival.slot].flow);
  for (const ProcessorClaim& claim : graph_.processor_claims_of(row)) {
    if (claim.role == Role::run && pools_->contended(claim.pool))
      pools_->join(arrival.slot, arrival.time_seconds, claim);
  }
}

/// A slot may have gone to another flow since.
bool Execution::out_of_date(const Event& finish) const {
  return slots_[finish.slot].finish_seconds != finish.time_seconds ||
         index(row_of(finish.slot).task) != finish.task;
}

void Execution::finish_flow(Event event) {
  if (out_of_date(event)) return;
  --running_;
  fair_share_->leave(event.slot);
  for (const ProcessorClaim& claim : graph_.processor_claims_of(row_of(event.slot))) {
    if (claim.role == Role::run && pools_->contended(claim.pool))
      release(pools_->leave(event.slot, claim.pool));
  }
  complete(event);
}

/// The task is done and gives back what it holds.
void Execution::complete(Event event) {
  const auto [finish, task, slot] = event;
  for (const ProcessorClaim& claim : graph_.processor_claims_of(row_of(slot))) {
    if ((claim.role == Role::hold || claim.role == Role::give) && pools_->contended(claim.pool))
      pools_->give(claim.pool, claim.count);
  }
  slots_[slot].finish_seconds = -1;
  free_slots_.push_back(slot);
  timeline_.finish_seconds[task] = finish;
  timeline_.makespan_seconds = std::max(timeline_.makespan_seconds, finish);
  ++resolved_;
  uint32_t* top = worklist_.get();
  for (uint32_t e = graph_.finish_offsets[task]; e < graph_.finish_offsets[task + 1]; ++e) {
    deliver(task, finish, graph_.finish_targets[e], top);
  }
  resolve(top);
}

/// Holders of one instant: who runs is the same for all of them, so their order does not matter.
void Execution::place_holders(double now) {
  while (wave_ends_.next_seconds() == now) {
    const Event end = wave_ends_.pop();
    Shared& shared = slots_[end.slot];
    if (shared.wave_end_seconds != now || index(row_of(end.slot).task) != end.task) continue;
    shared.wave_end_seconds = 0;
    for (const ProcessorClaim& claim : graph_.processor_claims_of(row_of(end.slot)))
      if (ProcessorPools::Runner* const runner = pools_->runner(end.slot, claim.pool)) {
        runner->wave_end = 0;
        release(std::exchange(runner->waiting, {}));
      }
  }
  while (holders_.next_seconds() == now) ask(holders_.pop());
  placed_.swap(ready_);
  std::sort(placed_.begin(), placed_.end(),
            [&](uint32_t a, uint32_t b) { return slots_[a].flow < slots_[b].flow; });
  for (uint32_t slot : placed_) take_processors(slot, now);
  placed_.clear();
}

/// Every runner that is in the way lets the holder in where its wave ends.
void Execution::ask(Event holder) {
  uint32_t& waits = slots_[holder.slot].waves;
  for (const ProcessorClaim& claim : graph_.processor_claims_of(row_of(holder.slot))) {
    const bool holds = claim.role == Role::hold || claim.role == Role::take;
    if (!holds || !pools_->contended(claim.pool)) continue;
    for (ProcessorPools::Runner& runner : pools_->runners(claim.pool)) {
      const double now = holder.time_seconds;
      if (runner.since_seconds == now && !claim.yields) continue;
      if (claim.count + runner.claim.count <= pools_->size(claim.pool)) continue;
      const double end = wave_end_seconds(runner.claim, work_done(runner, now), work(runner.slot));
      if (end == 0) continue;
      runner.wave_end = end;
      runner.waiting.push_back(holder.slot);
      watched_.push_back(runner.slot);
      ++waits;
    }
  }
  if (waits == 0) ready_.push_back(holder.slot);
}

void Execution::release(std::span<const uint32_t> holders) {
  for (uint32_t slot : holders)
    if (--slots_[slot].waves == 0) ready_.push_back(slot);
}

void Execution::take_processors(uint32_t slot, double now) {
  const FlowRow& row = row_of(slot);
  const uint32_t task = index(row.task);
  bool moves = false;
  for (const ProcessorClaim& claim : graph_.processor_claims_of(row)) {
    if (!pools_->contended(claim.pool)) continue;
    moves = moves || claim.role == Role::hold;
    if (claim.role == Role::hold || claim.role == Role::take) pools_->take(claim.pool, claim.count);
  }
  if (!moves) return complete({now, task, slot});
  if (now > timeline_.start_seconds[task])
    slots_[slot].finish_seconds = now + graph_.durations_seconds[task];
  arrivals_.push({now + row.latency_seconds, task, slot});
}

/// Every change of speed leaves an event behind; they are swept so that they stay in proportion to
/// the flows.
void Execution::expect_finish(uint32_t slot) {
  if (finishes_.size() > 64 + 4 * running_)
    finishes_.erase_if([&](const Event& e) { return out_of_date(e); });
  finishes_.push({slots_[slot].finish_seconds, index(row_of(slot).task), slot});
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
  if (options.sharing && !graph.flows.empty())
    execution.share(contended_resources(graph), contended_pools(graph));
  execution.resolve_roots();
  execution.run_flows();
  if (options.counts != nullptr) *options.counts = execution.counts();
  if (!execution.finished()) return execution.deadlock();
  return std::move(execution).take_timeline();
}

}  // namespace stepsim
