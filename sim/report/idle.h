// What a device's idle stretch waited for: the chain of tasks, back from the one that ended it. The
// rules are those of the ledger (sim/report/ledger.h); other passes ask the same walk who it was,
// so that their sums are the ledger's.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

#include "sim/report/ledger.h"

namespace stepsim {

inline Cause exposed_cause(CommClass c) {
  assert(c != CommClass::none);
  return static_cast<Cause>(static_cast<int>(Cause::exposed_tp) + static_cast<int>(c) - 1);
}

/// A part of an idle stretch and what it is given to. A chain comes latest link first, links of no
/// length included.
struct IdleStretch {
  Cause cause = Cause::bubble;
  double low = 0, high = 0;
  double idle_since = 0;  ///< begin of the whole idle stretch
  TaskId task = no_task;  ///< no_task before the first one
  TaskId next = no_task;  ///< the link before: what waited for `task`; no_task at the step's end
  bool by_lag = false;    ///< `next` waited for the start of `task`, not for its finish
  bool first = false;     ///< the chain begins here
  double seconds() const { return high - low; }
};

/// Explains idle stretches; holds what the walk needs to know about transfers between devices.
class IdleWalk {
 public:
  IdleWalk(const LoweredStep& step, const Timeline& timeline);

  /// Calls visit.idle with the parts of [low, high] on `device`, given that `task` (the first of
  /// the chain) held `next` up until `high`: by running until then, or, when `by_lag`, by the lag
  /// after its start.
  template <class Visit>
  void explain(Visit& visit, uint32_t device, double low, double high, TaskId task, TaskId next,
               bool by_lag) const;
  /// The binding; but when this device's own arrival came as late as any, its own chain explains
  /// the wait, so that alike ranks give the same ledger whether one or all of them are simulated.
  TaskId waited_on(TaskId task, uint32_t device) const;

 private:
  /// What an instant behind `task` is: with `all`, everything that remains is of that cause.
  struct Verdict {
    Cause cause = Cause::bubble;
    bool all = false;
  };
  Verdict verdict(uint32_t device, TaskId task, bool by_lag, CommClass arriving) const;
  bool serves(TaskId transfer, int stage) const;

  const LoweredStep& step_;
  const Timeline& timeline_;
  std::vector<bool> shared_;  ///< by task: has rows in LoweredStep::members
};

template <class Visit>
void IdleWalk::explain(Visit& visit, uint32_t device, double low, double high, TaskId task,
                       TaskId next, bool by_lag) const {
  IdleStretch s{.high = high, .idle_since = low, .task = task, .next = next, .by_lag = by_lag};
  CommClass arriving = CommClass::none;  // of the transfer whose arrival comes next in the chain
  for (s.first = true; s.high > low; s.first = false) {
    Verdict found{Cause::bubble, true};
    if (s.task != no_task) found = verdict(device, s.task, s.by_lag, arriving);
    s.cause = found.cause;
    s.low =
        found.all ? low : std::max(low, std::min(s.high, timeline_.start_seconds[index(s.task)]));
    visit.idle(device, s);
    if (found.all) return;
    const OpRow& op = row(label_of(step_.graph, s.task).op);
    if (!s.by_lag && op.task_class == TaskClass::communication) arriving = op.comm;
    s.high = s.low;
    s.next = s.task;
    s.task = waited_on(s.next, device);
    s.by_lag = s.task != no_task && !waited_for_finish(timeline_, s.task, s.next);
  }
}

}  // namespace stepsim
