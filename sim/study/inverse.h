// Which single parameter explains a measured step time: each is turned until the simulated step
// takes so long, everything else as described.
//
// Plausibility: the distance from the described value in standard deviations, |ln factor| / sigma,
// sigma from the table of knobs, or declared with the candidate. A switch has no distance of its
// own: it counts as declared there, and what its step still misses counts in the prediction's own
// deviations, as if independent: sqrt(declared^2 + (ln(measured / step) / sigma)^2). One that
// explains less than half of the difference explains nothing.
// What cannot reach the measured time however far it is turned is listed as impossible.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/study/outcomes.h"

namespace stepsim {

/// One explanation.
struct Explanation {
  std::string name, words;
  bool possible = false;
  std::string value;               ///< "46.5 GB/s, 93 % of 50 GB/s"
  std::optional<double> factor{};  ///< over the described value; absent: a switch
  double step_seconds = 0;         ///< with it; of an impossible one the nearest
  double distance = 0;             ///< in standard deviations; of possible ones
  double sigma = 0;                ///< of a parameter
  std::string note{};              ///< why it is impossible
};

/// Most plausible first, then the impossible ones.
struct Inverse {
  double measured_seconds = 0, predicted_seconds = 0;
  double own_sigma = 0;  ///< of the prediction, relative
  std::vector<Explanation> rows;
  size_t simulations = 0;
  /// The prediction as it is, in its own deviations.
  double own_distance() const;
};

/// Reads the scenario anew with more overrides (switches go through the gates); may throw Error.
using Reread = std::function<Scenario(const std::vector<std::string>& overrides)>;

/// Throws Error where the scenario itself cannot be simulated. `reread` empty: no switches.
/// `progress` counts candidates.
Inverse explain_step(const Scenario& scenario, double measured_seconds, const Reread& reread = {},
                     const Progress& progress = {});

std::string inverse_text(const Inverse& found);
std::string inverse_json(const Scenario& scenario, const Inverse& found);

}  // namespace stepsim
