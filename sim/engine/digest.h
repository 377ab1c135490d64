// A fingerprint of everything that decides how a graph runs and what its tasks are called.
// Law: equal graphs have equal digests; two that differ share one about as often as two random
// numbers of 64 bits are equal.
#pragma once

#include <array>
#include <cstdint>

#include "sim/engine/task_graph.h"

namespace stepsim {

using Digest = std::array<uint64_t, 2>;
Digest digest(const TaskGraph& graph);

}  // namespace stepsim
