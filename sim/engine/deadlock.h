// Why a graph cannot finish: the cycle of tasks that wait for each other.
#pragma once

#include <span>

#include "sim/engine/task_graph.h"
#include "sim/engine/timeline.h"

namespace stepsim {

/// `unresolved` by task. The cycle starts at its smallest task, and is a function of the graph
/// alone; empty where none is found: what is stuck waits for a task that runs for ever.
Deadlock find_deadlock(const TaskGraph& graph, std::span<const uint8_t> unresolved);

}  // namespace stepsim
