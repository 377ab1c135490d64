// Which change is answerable for how much of a difference, by simulating mixtures.
//
// Players are changes, or changes that only work together (coalitions.h). Up to ten of them every
// combination is simulated: whole where that costs little, else told from short steps (mixtures.h)
// as long as these agree with whole ones to a thousandth of the difference. Beyond, or where even
// that costs too much, random orders are (Castro et al. 2009), each with its reverse, and the
// standard error is said. Of more than ten, those that change nothing alone and nothing on top of
// all others are set aside first. What costs too much is counted in tasks: no clock decides a
// result.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/study/coalitions.h"
#include "sim/study/mixtures.h"
#include "sim/study/shapley.h"

namespace stepsim {

struct AttributionOptions {
  bool whole = false;  ///< every combination of up to `most_exact` players, however long it takes
  size_t most_exact = 10;
  double most_tasks = 40e6;  ///< simulated before something cheaper is done
  uint64_t seed = 1;
  Progress progress{};
};

/// The two ends of what is attributed.
struct Ends {
  const Scenario& a;
  const Scenario& b;
  double a_seconds = 0, b_seconds = 0;
  double a_tasks = 0, b_tasks = 0;
};

struct Attribution {
  Players players;                 ///< of change numbers
  std::vector<double> shares;      ///< seconds, by player
  std::vector<double> errors;      ///< standard errors; empty where every combination was simulated
  std::vector<double> values;      ///< seconds by set of players; empty where orders were sampled
  std::vector<Interaction> pairs;  ///< all of them; empty where orders were sampled
  size_t combinations = 0, simulated = 0;  ///< mixtures; different steps among them
  size_t orders = 0;                       ///< random ones
  size_t dormant = 0;  ///< players, the last ones, that were seen to change nothing and set aside
  bool shortened = false;        ///< steps were told from short ones
  double deviation_seconds = 0;  ///< the largest of a short step from a whole one, where both ran
};

/// `live`: numbers of the changes that can matter; the others keep A's value.
Attribution attribute(Mixtures& mixtures, size_t changes, const std::vector<size_t>& live,
                      const Ends& ends, const AttributionOptions& options);

}  // namespace stepsim
