// What sharing a device with communication costs its kernels, and through what.
//
// A kernel on n free SMs runs no faster than runner_speed (sim/engine/processors.h); with held SMs
// known over time, the time lost to them is the integral of 1 - that speed over the kernel. What a
// kernel takes beyond its own time and that is lost to memory bandwidth.
#pragma once

#include <optional>

#include "sim/lower/lowered.h"
#include "sim/report/step_end.h"

namespace stepsim {

/// Mean over all ranks.
struct Contention {
  double sm_seconds = 0, memory_seconds = 0;
  double shared_seconds = 0;  ///< of kernels while communication ran or held SMs beside them
  double seconds() const { return sm_seconds + memory_seconds; }
  /// How much longer kernels take while communication runs, of their time alone; absent when there
  /// is no such time.
  std::optional<double> slowdown() const {
    const double alone = shared_seconds - seconds();
    return alone > 0 ? std::optional(seconds() / alone) : std::nullopt;
  }
};

Contention contention(const LoweredStep& step, const Timeline& timeline, StepEnd end);

}  // namespace stepsim
