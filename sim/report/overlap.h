// How much communication runs under compute. Overlap is an outcome: intervals of the timeline,
// never an input.
//
//   efficiency = sum w |U and compute| / sum w |U|     over devices of weight w
// U: union of the intervals [last member's arrival, finish] of the transfers that a device takes
// part in; compute: when its compute stream runs. total = |U| = hidden + not_hidden; under a bubble
// counts as not hidden. Worked case: transfer [1, 4], compute [0, 2] and [3, 5]: |U| = 3, hidden =
// 2, efficiency 2/3.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "sim/report/step_end.h"

namespace stepsim {

/// Mean seconds a rank (weighted by the ranks that each device represents).
struct Communication {
  double total_seconds = 0, hidden_seconds = 0;
  double waiting_seconds =
      0;  ///< from this member's arrival to the transfer's start, summed over transfers
  double not_hidden_seconds() const { return total_seconds - hidden_seconds; }
  /// hidden over total; nothing when no bytes took time.
  std::optional<double> efficiency() const {
    if (total_seconds <= 0) return std::nullopt;
    return hidden_seconds / total_seconds;
  }
};

/// Absent: there is no transfer of that class. `overall` is the union over the classes.
struct CommunicationTable {
  std::optional<Communication> overall;
  std::array<std::optional<Communication>, comm_class_count> by_class;
};

/// A half-open stretch of time.
struct Interval {
  double start = 0, finish = 0;
};
// An object, not a function: sorts take it in.
inline constexpr auto earlier = [](const Interval& a, const Interval& b) {
  return a.start < b.start;
};
/// Appends, growing the last interval where they touch: the tasks of one stream come in time order.
inline void append(std::vector<Interval>& intervals, Interval i) {
  if (i.finish <= i.start) return;
  if (!intervals.empty() && i.start <= intervals.back().finish &&
      i.start >= intervals.back().start) {
    intervals.back().finish = std::max(intervals.back().finish, i.finish);
  } else {
    intervals.push_back(i);
  }
}
/// Disjoint, ascending, without empty ones.
std::vector<Interval> interval_union(std::vector<Interval> intervals);
double length(const std::vector<Interval>& intervals);
/// Of two unions.
double common_length(const std::vector<Interval>& a, const std::vector<Interval>& b);

/// When the bytes of a transfer move for one of its members: from its last arrival, waiting for SMs
/// included, to its end.
Interval moving(const LoweredStep& step, const Timeline& timeline, const RendezvousMember& m);

CommunicationTable communication(const LoweredStep& step, const Timeline& timeline, StepEnd end);

}  // namespace stepsim
