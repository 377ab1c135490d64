// Max-min fair sharing of resources among the flows that run at one instant.
//
// A flow i that runs at speed s_i in (0, cap_i] takes s_i * rate * multiplicity of each resource it
// claims; cap_i <= 1 is what the processors left to it allow (processors.h). Its byte rate is x_i =
// s_i * b_i, where b_i is the rate of its tightest claim (the largest rate * multiplicity /
// capacity; ties: the first), so x_i <= cap_i b_i. With a_ir = multiplicity * rate / b_i:
//   sum over flows of a_ir x_i <= C_r                                  for every resource r
//   max-min: no x_i can grow without shrinking an x_j that is not larger
// Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): raise one level L for all
// open flows. A resource fills at L_r = (C_r - sum closed a x) / (sum open a). With L the least
// L_r, open flows with cap_i b_i <= L close at speed cap_i; when there is none, the flows of the
// resource that fills first close at L. Levels never fall, so every speed is above 0.
//
// Worked: links P (capacity 10) and Q (capacity 8); flow 1 on P and Q, 2 on P, 3 on Q, 4 on P with
// b = 2; the other b are 100. Levels: L_P = 10/3, L_Q = 8/2, least 10/3 >= b_4: flow 4 closes at x
// = 2, full speed. Then L_P = (10 - 2)/2 = 4 and L_Q = 4: all close at 4. Usage: P 4 + 4 + 2 = 10,
// Q 4 + 4 = 8. With capacity 12 on Q: L_Q = 6, so P closes 1 and 2 at 4, then Q gives flow 3 (12 -
// 4)/1 = 8.
//
// A resource binds only when the full-speed demand of its flows exceeds its capacity by more than
// one rounding of a float rate; the others tie nothing together. So a change reaches only the flows
// that are connected to it through binding resources, and their speeds are a function of the set of
// flows, not of its history. The same linear max-min system with weights and bounds as SimGrid's
// (src/kernel/lmm/System.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/task_graph.h"

namespace stepsim {

/// By resource: whether its claimants can ever slow each other or themselves: two queues claim it
/// (a task in no stream is its own queue), or one claim alone exceeds it. All other resources can
/// be ignored.
std::vector<uint8_t> contended_resources(const TaskGraph& graph);
/// By claim set: whether a flow that moves anything moves it through a contended resource.
std::vector<uint8_t> shared_sets(const TaskGraph& graph, std::span<const uint8_t> contended);

/// A flow (by slot) that joined, at `before` = 1, or whose speed is not what it was.
struct SpeedChange {
  uint32_t slot = 0;
  double before = 1, after = 1;
};

/// The flows that run now and their speeds. Join and leave at one instant, then settle once. Each
/// has a slot, a small number that is free again when it has left: what is kept stays in the cache.
class FairShare {
 public:
  /// `graph` must outlive this.
  FairShare(const TaskGraph& graph, std::span<const uint8_t> contended);

  /// `flow` is a row in TaskGraph::flows. At full speed until settled.
  void join(uint32_t slot, uint32_t flow);
  void leave(uint32_t slot);
  void set_cap(uint32_t slot, double cap);  ///< of a flow that joined; 1 before
  /// Speeds again wherever a flow joined or left. The result is valid until the next call.
  std::span<const SpeedChange> settle();
  double speed(uint32_t slot) const { return flows_[slot].speed; }
  uint64_t solved_flows() const { return solved_flows_; }  ///< by all calls of settle

 private:
  /// A claim on a contended resource.
  struct Share {
    uint32_t link = 0;
    double demand = 0;       ///< rate * multiplicity, units per second at full speed
    double level_share = 0;  ///< a_ir, units of the resource per unit of the flow's byte rate
  };
  /// What a claim set comes to, worked out once for all its flows: rows [first, last) of `shares_`.
  struct SharedSet {
    uint32_t first = 0, last = 0;
    double rate = 0;  ///< b_i
  };
  /// A flow on a resource.
  struct Claimant {
    uint32_t slot = 0, flow = 0;
    double demand = 0, level_share = 0;  ///< of the flow's share
  };
  /// A resource and who is on it now, in ascending order of flow.
  struct Link {
    double capacity = 0, level = 0;
    std::vector<Claimant> claimants;
    uint32_t visit = 0;
    bool dirty = false, binds = false;
  };
  struct Flow {
    uint32_t row = 0;
    SharedSet set;
    double speed = 1, cap = 1;
    double closed_speed = 0;  ///< 0 while open
    uint32_t visit = 0;
    bool fresh = false, joined = false;  ///< since settled last: got a cap or joined; joined
  };

  std::span<const Share> shares_of(const Flow& flow) const {
    return {shares_.data() + flow.set.first, shares_.data() + flow.set.last};
  }
  void touch(uint32_t link);
  void freshen(uint32_t slot);
  void change_speed(uint32_t slot, double speed);
  void gather(uint32_t link);
  void solve(uint32_t link);
  void fill();
  double least_level(double previous);

  const TaskGraph& graph_;
  std::vector<Share> shares_;
  std::vector<SharedSet> sets_;  ///< by claim set
  std::vector<Link> links_;
  std::vector<Flow> flows_;              ///< by slot
  std::vector<uint32_t> dirty_, fresh_;  ///< links that may bind anew or no more; slots
  std::vector<uint32_t> component_links_, component_flows_;
  std::vector<SpeedChange> changes_;
  uint32_t visit_ = 0;
  uint64_t solved_flows_ = 0;
};

}  // namespace stepsim
