// A fingerprint of everything that decides how a graph runs and what its tasks are called.
// Law: equal graphs have equal digests; that two that differ share one is as likely as two equal
// random numbers of 128 bits.
#pragma once

#include <array>
#include <cstdint>

#include "sim/engine/task_graph.h"

namespace stepsim {

using Digest = std::array<uint64_t, 2>;
Digest digest(const TaskGraph& graph);

}  // namespace stepsim
