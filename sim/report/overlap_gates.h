// Overlaps that this scenario could have and has not: switches that are off, or that a gate of
// Megatron-Bridge has turned off.
#pragma once

#include <string>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/lower/label.h"

namespace stepsim {

/// A switch that would put transfers beside kernels and is not in effect.
struct ClosedGate {
  std::string key;                              ///< dotted Bridge key
  bool requested = false;                       ///< asked for, and undone by a gate
  std::string reason;                           ///< why it is not in effect
  bool (*holds)(const Label& label) = nullptr;  ///< the transfers that it is about
};

/// At most one is about any transfer. None with given costs: their transfers are asynchronous.
std::vector<ClosedGate> closed_gates(const Scenario& scenario);

}  // namespace stepsim
