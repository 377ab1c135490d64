// When each device's compute stream does not compute, and why: the stretches that the ledger adds
// up.
#pragma once

#include <vector>

#include "sim/report/ledger.h"

namespace stepsim {

/// A part of what a device's compute stream does not compute, with its one cause.
struct IdlePart {
  uint32_t device = 0;
  Cause cause{};
  double start_seconds = 0, finish_seconds = 0;
};

/// By device and time; those of a device and its compute and optimizer add up to its step.
std::vector<IdlePart> idle_parts(const LoweredStep& step, const Timeline& timeline,
                                 const StepEnd& end);

}  // namespace stepsim
