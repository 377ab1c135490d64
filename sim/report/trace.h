// The timeline as Chrome trace JSON (the Trace Event Format), which Perfetto and chrome://tracing
// open.
#pragma once

#include <iosfwd>
#include <span>
#include <string_view>

#include "sim/engine/timeline.h"
#include "sim/lower/lowered.h"

namespace stepsim {

/// A process per simulated device, a thread per stream, a slice per task, arrows from sender to
/// receiver of pipeline transfers, a counter for activation memory. Microseconds with three
/// decimals; tasks without length are left out.
void write_trace(std::ostream& out, const LoweredStep& step, const Timeline& timeline);

/// One of several steps in one file, all from time 0; `prefix` tells its processes apart.
struct TracedStep {
  std::string_view prefix;
  const LoweredStep& step;
  const Timeline& timeline;
};
void write_traces(std::ostream& out, std::span<const TracedStep> steps);

}  // namespace stepsim
