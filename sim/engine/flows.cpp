// The clock of shared flows: arrivals, finishes, holders and the waves they wait for.
#include <algorithm>
#include <limits>
#include <utility>

#include "sim/engine/execution.h"

namespace stepsim {

namespace {
using Role = ProcessorClaim::Role;
}

/// Tasks of a queue lie one behind the other in every table, but there are more queues and tables
/// than the processor follows by itself: without this half the time goes into waiting for memory.
/// Must be inlined: g++ leaves out the call of a function that only fetches.
[[gnu::always_inline]] inline void Execution::fetch_ahead(uint32_t task, uint32_t flow) const {
  constexpr uint32_t ahead = 16;
  const auto fetch = [](const auto& values, size_t i) {
    if (i < values.size()) __builtin_prefetch(values.data() + i);
  };
  const uint32_t next = task + ahead;
  if (next >= graph_.task_count()) return;
  __builtin_prefetch(pending_.get() + next, 1);
  __builtin_prefetch(timeline_.start_seconds.data() + next, 1);
  __builtin_prefetch(timeline_.finish_seconds.data() + next, 1);
  __builtin_prefetch(timeline_.binding.data() + next, 1);
  fetch(graph_.durations_seconds, next);
  fetch(graph_.finish_offsets, next);
  fetch(graph_.finish_targets, size_t{graph_.finish_offsets[task]} + ahead * 3 / 2);
  fetch(graph_.flows, flow + ahead);
  if (graph_.start_offsets.empty()) return;
  fetch(graph_.start_offsets, next);
  fetch(graph_.start_targets, size_t{graph_.start_offsets[task]} + ahead);
  fetch(graph_.start_lags_seconds, size_t{graph_.start_offsets[task]} + ahead);
}

void Execution::arrive(uint32_t task) {
  const uint32_t flow = index(timeline_.binding[task]);
  timeline_.binding[task] = TaskId{pending_[task].binding};
  fetch_ahead(task, flow);
  const double start = timeline_.start_seconds[task];
  auto slot = static_cast<uint32_t>(slots_.size());
  if (free_slots_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  const FlowRow& row = graph_.flows[flow];
  slots_[slot] = {.flow = flow,
                  .task = task,
                  .set = row.set,
                  .finish_seconds = start + graph_.durations_seconds[task]};
  if (claims_as(slot, Role::hold, Role::take)) return holders_.push({start, task, slot});
  expect_arrival({start + row.latency_seconds, task, slot});
}

void Execution::expect_arrival(Event arrival) {
  if (arrival.time_seconds != now_seconds_) return arrivals_.push(arrival);
  auto place = due_.end();
  while (place != due_.begin() && (place - 1)->task < arrival.task) --place;
  due_.insert(place, arrival);
}

/// The first of this instant's arrivals, by task; false when there is none.
bool Execution::begin_next(double now) {
  const bool waits = arrivals_.next_seconds() == now;
  if (!due_.empty() && !(waits && arrivals_.next_task() < due_.back().task)) {
    const Event event = due_.back();
    due_.pop_back();
    begin_flow(event);
    return true;
  }
  if (waits) begin_flow(arrivals_.pop());
  return waits;
}

/// Flows in time order. All that happens at one instant happens before speeds are settled, so a
/// speed that would last for no time leaves no trace, not even a rounding. Holders come last: they
/// see who runs once nothing else happens at that instant.
void Execution::run_flows() {
  for (;;) {
    const double now = std::min({arrivals_.next_seconds(), finishes_.next_seconds(),
                                 holders_.next_seconds(), wave_ends_.next_seconds()});
    if (now == std::numeric_limits<double>::infinity()) return;
    now_seconds_ = now;
    for (bool more = true; more;) {
      while (finishes_.next_seconds() == now) finish_flow(finishes_.pop());
      while (begin_next(now)) continue;
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
    for (const ProcessorClaim& claim : processors_of(slot))
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
  wave_ends_.push({shared.wave_end_seconds, shared.task, runner.slot});
}

void Execution::begin_flow(Event arrival) {
  const FlowRow& row = row_of(arrival.slot);
  if (row.latency_seconds >= graph_.durations_seconds[arrival.task]) return complete(arrival);
  ++running_;
  fair_share_->join(arrival.slot, slots_[arrival.slot].flow);
  if (!claims_as(arrival.slot, Role::run, Role::run)) return;
  for (const ProcessorClaim& claim : processors_of(arrival.slot)) {
    if (claim.role == Role::run && pools_->contended(claim.pool))
      pools_->join(arrival.slot, arrival.time_seconds, claim);
  }
}

/// A slot may have gone to another flow since.
bool Execution::out_of_date(const Event& finish) const {
  return slots_[finish.slot].finish_seconds != finish.time_seconds ||
         slots_[finish.slot].task != finish.task;
}

void Execution::finish_flow(Event event) {
  if (out_of_date(event)) return;
  --running_;
  fair_share_->leave(event.slot);
  if (claims_as(event.slot, Role::run, Role::run)) {
    for (const ProcessorClaim& claim : processors_of(event.slot))
      if (claim.role == Role::run && pools_->contended(claim.pool))
        release(pools_->leave(event.slot, claim.pool));
  }
  complete(event);
}

/// The task is done and gives back what it holds.
void Execution::complete(Event event) {
  const auto [finish, task, slot] = event;
  if (claims_as(slot, Role::hold, Role::give)) {
    for (const ProcessorClaim& claim : processors_of(slot))
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
    if (shared.wave_end_seconds != now || shared.task != end.task) continue;
    shared.wave_end_seconds = 0;
    for (const ProcessorClaim& claim : processors_of(end.slot))
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
  for (const ProcessorClaim& claim : processors_of(holder.slot)) {
    const bool holds = claim.role == Role::hold || claim.role == Role::take;
    if (!holds || !pools_->contended(claim.pool)) continue;
    for (ProcessorPools::Runner& runner : pools_->runners(claim.pool)) {
      const double now = holder.time_seconds;
      if (runner.since_seconds == now && !claim.yields) continue;
      if (claim.count + occupied(runner.claim) <= pools_->size(claim.pool)) continue;
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
  for (const ProcessorClaim& claim : processors_of(slot)) {
    if (!pools_->contended(claim.pool)) continue;
    moves = moves || claim.role == Role::hold;
    if (claim.role == Role::hold || claim.role == Role::take) pools_->take(claim.pool, claim.count);
  }
  if (!moves) return complete({now, task, slot});
  if (now > timeline_.start_seconds[task])
    slots_[slot].finish_seconds = now + graph_.durations_seconds[task];
  expect_arrival({now + row.latency_seconds, task, slot});
}

/// Every change of speed leaves an event behind; they are swept so that they stay in proportion to
/// the flows.
void Execution::expect_finish(uint32_t slot) {
  if (finishes_.size() > 64 + 4 * running_)
    finishes_.erase_if([&](const Event& e) { return out_of_date(e); });
  finishes_.push({slots_[slot].finish_seconds, slots_[slot].task, slot});
}

}  // namespace stepsim
