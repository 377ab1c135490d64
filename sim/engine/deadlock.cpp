#include "sim/engine/deadlock.h"

#include <algorithm>
#include <cassert>
#include <vector>

namespace stepsim {

Deadlock find_deadlock(const TaskGraph& graph, std::span<const uint8_t> unresolved) {
  // Each stuck task waits for its smallest stuck predecessor; following that ends in a cycle.
  std::vector<TaskId> waits_for(unresolved.size(), no_task);
  const auto note_waiters = [&](std::span<const uint32_t> offsets,
                                std::span<const uint32_t> targets, uint32_t task) {
    for (uint32_t e = offsets[task]; e < offsets[task + 1]; ++e) {
      if (waits_for[targets[e]] == no_task) waits_for[targets[e]] = TaskId{task};
    }
  };
  uint32_t first = graph.task_count();
  for (uint32_t task = 0; task < graph.task_count(); ++task) {
    if (!unresolved[task]) continue;
    first = std::min(first, task);
    note_waiters(graph.finish_offsets, graph.finish_targets, task);
    if (!graph.start_offsets.empty()) note_waiters(graph.start_offsets, graph.start_targets, task);
  }
  assert(first < graph.task_count());

  std::vector<uint8_t> seen(unresolved.size(), 0);
  TaskId task{first};
  for (; !seen[index(task)]; task = waits_for[index(task)]) {
    seen[index(task)] = 1;
    assert(waits_for[index(task)] != no_task);
  }
  Deadlock deadlock;
  const TaskId entry = task;
  do {
    deadlock.cycle.push_back(task);
    task = waits_for[index(task)];
  } while (task != entry);
  const auto smallest = std::min_element(deadlock.cycle.begin(), deadlock.cycle.end());
  std::rotate(deadlock.cycle.begin(), smallest, deadlock.cycle.end());
  return deadlock;
}

}  // namespace stepsim
