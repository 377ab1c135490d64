// Runs a TaskGraph. Deterministic to the bit: the result is a function of the graph alone.
//
// Fixed tasks (no claim on a resource that two queues share) are resolved eagerly on a LIFO
// worklist with no clock; flows that share a resource run in time order in a heap keyed (time, task
// id), max-min fairly.
#pragma once

#include <variant>

#include "sim/engine/task_graph.h"
#include "sim/engine/timeline.h"

namespace stepsim {

struct EngineOptions {
  bool sharing = true;  ///< false: every task runs at full speed whatever its claims
};

/// The timeline, or the deadlock that keeps the graph from finishing.
std::variant<Timeline, Deadlock> run(const TaskGraph& graph, EngineOptions options = {});

}  // namespace stepsim
