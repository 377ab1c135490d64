// The timeline as Chrome trace JSON (the Trace Event Format), which Perfetto and chrome://tracing
// open.
#pragma once

#include <iosfwd>

#include "sim/engine/timeline.h"
#include "sim/lower/lowered.h"

namespace stepsim {

/// A process per simulated device, a thread per stream, a slice per task, arrows from sender to
/// receiver of pipeline transfers, a counter for activation memory. Microseconds with three
/// decimals; tasks without length are left out.
void write_trace(std::ostream& out, const LoweredStep& step, const Timeline& timeline);

}  // namespace stepsim
