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

/// How much of the shared flows is solved again when something changes.
struct EngineCounts {
  uint64_t changes = 0;        ///< instants at which a flow joined, left or got other processors
  uint64_t solved_flows = 0;   ///< flows whose speed was worked out then, over all of them
  uint64_t running_flows = 0;  ///< flows under way then, over all of them
};

struct EngineOptions {
  bool sharing = true;             ///< false: every task runs at full speed whatever its claims
  EngineCounts* counts = nullptr;  ///< filled when set
};

/// The timeline, or the deadlock that keeps the graph from finishing.
std::variant<Timeline, Deadlock> run(const TaskGraph& graph, EngineOptions options = {});

}  // namespace stepsim
