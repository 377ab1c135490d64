// One run of one graph: fixed tasks eagerly (execution.cpp), shared flows in time order
// (flows.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/engine/event_heap.h"
#include "sim/engine/fair_share.h"
#include "sim/engine/processors.h"

namespace stepsim {

// Set in `Pending::waiting_for` of shared tasks, so that the worklist tells them apart for free.
inline constexpr uint32_t shared_bit = uint32_t{1} << 31;

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
  uint32_t task = 0;            ///< of that row
  ClaimSetId set{};             ///< of that row
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
  void fetch_ahead(uint32_t task, uint32_t flow) const;
  void arrive(uint32_t task);
  void begin_flow(Event arrival);
  void expect_arrival(Event arrival);
  bool begin_next(double now);
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
  std::span<const ProcessorClaim> processors_of(uint32_t slot) const {
    return graph_.processor_claims_of(slots_[slot].set);
  }
  /// Whether it claims a contended pool in that role, or in the other.
  bool claims_as(uint32_t slot, ProcessorClaim::Role role, ProcessorClaim::Role other) const {
    return (roles_[index(slots_[slot].set)] & (role_bit(role) | role_bit(other))) != 0;
  }
  static constexpr unsigned role_bit(ProcessorClaim::Role role) {
    return 1U << static_cast<unsigned>(role);
  }
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
  /// Arrivals of this very instant, the next one last: most of all there are.
  std::vector<Event> due_;
  double now_seconds_ = -1;
  // Holders ask for their processors when they start, and get them where waves of runners end.
  EventHeap holders_, wave_ends_;         ///< a wave end likewise
  std::vector<uint32_t> ready_, placed_;  ///< holders of this instant
  std::vector<uint32_t> watched_;         ///< runners waited for anew
  size_t running_ = 0;                    ///< flows that arrived and did not finish
  EngineCounts counts_;
  std::vector<uint8_t> roles_;  ///< by claim set, a bit a role on contended pools
  std::unique_ptr<FairShare> fair_share_;
  std::unique_ptr<ProcessorPools> pools_;
};

}  // namespace stepsim
