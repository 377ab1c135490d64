// When each task ran and what it waited for. Every metric is a pass over this afterwards.
#pragma once

#include <string>
#include <vector>

#include "sim/engine/task_graph.h"

namespace stepsim {

/// Indexed by task. `binding` is the predecessor whose constraint came last (ties: the smallest
/// id), or no_task.
struct Timeline {
  std::vector<double> start_seconds, finish_seconds;
  std::vector<TaskId> binding;
  double makespan_seconds = 0;
};

/// A cycle of tasks that wait for each other, in waiting order; empty when the graph could finish.
struct Deadlock {
  std::vector<TaskId> cycle;
  double reached_seconds = 0;  ///< the last finish before nothing moves any more
};

}  // namespace stepsim
