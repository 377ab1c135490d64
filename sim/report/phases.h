// How long each rank's forward, backward and optimizer phases last, as a timer around them on that
// rank would say: a phase lasts from its first kernel to the first kernel of the next, so what it
// waits for at its end is its own (backward: for the last gradient reduction). Ranks that wait for
// each other in a collective therefore show equal phases, whoever of them is late.
#pragma once

#include <vector>

#include "sim/report/step_end.h"

namespace stepsim {

/// Seconds of one device; they add up to the step. With a pipeline the passes alternate, and each
/// figure is a sum over all of them, waits for other stages included.
struct Phases {
  double forward_seconds = 0, backward_seconds = 0;
  double optimizer_seconds = 0;  ///< and all else outside the passes
};
std::vector<Phases> phases(const LoweredStep& step, const Timeline& timeline, StepEnd end);

}  // namespace stepsim
