// Pieces of a search in a form that any process can do: what is asked and what is answered are
// bytes, and an answer depends on nothing but its question and the files in models/ and hardware/.
// So it does not matter who answers, nor whether two did.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/study/experiment.h"

namespace stepsim {

/// A layout before it is simulated.
struct Sized {
  bool valid = false, fits = false;  ///< not valid: Megatron would refuse it
  double needed_bytes = 0, capacity_bytes = 0;
  double bound_seconds = 0;  ///< lower_bound.h; only of what fits
  uint64_t in_effect = 0;    ///< print of its settings after Bridge's gates: alike ones have one
  bool operator==(const Sized&) const = default;
};

/// Memory and lower bound of a scenario as JSON text; `file` is what errors point at.
std::string size_errand(const std::string& text, const std::string& file);
/// Its simulation.
std::string step_errand(const std::string& text, const std::string& file);
/// The simulation of one point of an experiment.
std::string point_errand(const Experiment& experiment, std::span<const std::string> words,
                         const std::string& cluster);

std::string answer_of(const std::string& errand, const DataPaths& data);
Sized sized_by(const std::string& answer);
Outcome outcome_by(const std::string& answer);

/// Errands 0 .. count - 1. `errand` is asked by several threads; `answered` is told by one at a
/// time, once of each, in any order; after `stop` some may be missing.
struct Errands {
  size_t count = 0;
  std::function<std::string(size_t)> errand;
  std::function<void(size_t, const std::string& answer)> answered;
  std::function<bool()> stop{};
};

/// Whoever does errands: returns when all are answered or `stop` says so.
using Crew = std::function<void(const Errands&)>;
/// Threads of this process.
Crew crew_of_threads(size_t threads, const DataPaths& data);

}  // namespace stepsim
