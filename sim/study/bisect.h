// The smallest set of changes that explains a given share of a difference.
//
// Law: with every combination simulated no smaller set explains as much; of equally small ones the
// one that explains most is named. Where orders were sampled, the set is grown by the change that
// adds most and then thinned, and it is said that a smaller one may exist.
#pragma once

#include "sim/study/diff.h"

namespace stepsim {

/// Made alone on A, these changes explain `explained_seconds` of the difference.
struct Bisection {
  std::vector<size_t> shares;  ///< numbers in `Diff::by_change`, ascending; empty: no set does
  double explained_seconds = 0;
  double left_seconds = 0;  ///< what taking them back from B leaves of the difference
  bool smallest = true;     ///< proven by simulating every combination
  std::vector<std::vector<size_t>> as_small;  ///< other sets of as few changes that also do
};

/// `share`: 0 to 1.
Bisection bisect(const Diff& diff, double share, const DataPaths& data);

std::string bisection_text(const Diff& diff, const Bisection& found, double share);
std::string bisection_json(const Diff& diff, const Bisection& found, double share);

}  // namespace stepsim
