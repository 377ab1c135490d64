// Parameters of the machine that can be turned by a factor, and how well each is known. The table
// feeds the sensitivity of a step and the search for what explains a measured one.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/config/scenario.h"

namespace stepsim {

/// One parameter, or several that move together.
struct Knob {
  std::string_view name;   ///< as in JSON
  std::string_view words;  ///< for a person: "NIC bandwidth"
  bool more_is_better;     ///< bandwidths and rates; of latencies and costs less is
  /// Relative standard deviation around the described value; `source`: whose.
  double sigma;
  std::string_view source;
  bool (*present)(const Scenario&);  ///< it can matter here
  void (*scale)(Scenario&, double factor);
  /// The figure itself in SI units and what it is; null: only the factor tells something.
  double (*value)(const Scenario&) = nullptr;
  std::string_view unit{};
};
/// "46.5 GB/s, 93 % of 50 GB/s", or "93 %": the knob at `better` times as good.
std::string value_text(const Scenario& scenario, const Knob& knob, double better);

std::span<const Knob> knobs();
const Knob& knob(std::string_view name);

/// The scenario with the knob `better` times as good: a bandwidth times it, a latency over it.
Scenario turned(Scenario scenario, const Knob& knob, double better);

}  // namespace stepsim
