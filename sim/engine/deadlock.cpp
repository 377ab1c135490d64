#include "sim/engine/deadlock.h"

#include <algorithm>
#include <vector>

namespace stepsim {

Deadlock find_deadlock(const TaskGraph& graph, std::span<const uint8_t> unresolved) {
  // Each stuck task waits for its smallest stuck predecessor; following that ends in a cycle, or
  // at a task whose predecessors run for ever.
  std::vector<TaskId> waits_for(unresolved.size(), no_task);
  const auto note_waiters = [&](std::span<const uint32_t> offsets,
                                std::span<const uint32_t> targets, uint32_t task) {
    for (uint32_t e = offsets[task]; e < offsets[task + 1]; ++e) {
      if (waits_for[targets[e]] == no_task) waits_for[targets[e]] = TaskId{task};
    }
  };
  for (uint32_t task = 0; task < graph.task_count(); ++task) {
    if (!unresolved[task]) continue;
    note_waiters(graph.finish_offsets, graph.finish_targets, task);
    if (!graph.start_offsets.empty()) note_waiters(graph.start_offsets, graph.start_targets, task);
  }

  // A walk that meets no task or an earlier walk has left all cycles.
  std::vector<TaskId> walk_of(unresolved.size(), no_task);
  Deadlock deadlock;
  for (uint32_t first = 0; first < graph.task_count() && deadlock.cycle.empty(); ++first) {
    if (!unresolved[first]) continue;
    TaskId task{first};
    for (; task != no_task && walk_of[index(task)] == no_task; task = waits_for[index(task)])
      walk_of[index(task)] = TaskId{first};
    if (task == no_task || walk_of[index(task)] != TaskId{first}) continue;
    const TaskId entry = task;
    do {
      deadlock.cycle.push_back(task);
      task = waits_for[index(task)];
    } while (task != entry);
  }
  if (deadlock.cycle.empty()) return deadlock;
  const auto smallest = std::min_element(deadlock.cycle.begin(), deadlock.cycle.end());
  std::rotate(deadlock.cycle.begin(), smallest, deadlock.cycle.end());
  return deadlock;
}

}  // namespace stepsim
