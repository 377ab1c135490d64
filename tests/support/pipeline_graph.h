// The 1F1B pipeline as a bare task graph: what engine tests and benchmarks run without lowering.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/task_graph_builder.h"

namespace stepsim::test {

/// A pipeline of equal stages.
struct Pipeline {
  uint32_t stages = 64, microbatches = 512;
  double forward_seconds = 1e-3, backward_seconds = 2e-3, transfer_seconds = 50e-6;
};

/// Stage p does min(stages - 1 - p, microbatches) warm-up forwards, then one forward and one
/// backward in turn, then the backwards left over. A transfer is a task in no stream between the
/// two computes it joins.
inline TaskGraph one_f_one_b(const Pipeline& pipeline) {
  const uint32_t stages = pipeline.stages, microbatches = pipeline.microbatches;
  TaskGraphBuilder builder(stages);
  const size_t passes = size_t{2} * stages * microbatches;
  builder.reserve(2 * passes, 3 * passes, 0);
  // By stage and microbatch: the passes, once added.
  std::vector<TaskId> forward(size_t{stages} * microbatches),
      backward(size_t{stages} * microbatches);
  for (uint32_t p = 0; p < stages; ++p) {
    const auto add_forward = [&](uint32_t m) {
      forward[p * microbatches + m] = builder.add_task(pipeline.forward_seconds, StreamId{p}, m);
    };
    const auto add_backward = [&](uint32_t m) {
      backward[p * microbatches + m] = builder.add_task(pipeline.backward_seconds, StreamId{p}, m);
    };
    const uint32_t warmup = std::min(stages - 1 - p, microbatches);
    for (uint32_t m = 0; m < warmup; ++m) add_forward(m);
    for (uint32_t m = warmup; m < microbatches; ++m) {
      add_forward(m);
      add_backward(m - warmup);
    }
    for (uint32_t m = microbatches - warmup; m < microbatches; ++m) add_backward(m);
  }
  const auto transfer = [&](TaskId from, TaskId to) {
    const TaskId task = builder.add_task(pipeline.transfer_seconds, no_stream, 0);
    builder.add_edge(from, task);
    builder.add_edge(task, to);
  };
  for (uint32_t p = 0; p < stages; ++p) {
    for (uint32_t m = 0; m < microbatches; ++m) {
      const uint32_t here = p * microbatches + m, next = here + microbatches;
      if (p + 1 == stages) {
        builder.add_edge(forward[here], backward[here]);
      } else {
        transfer(forward[here], forward[next]);
        transfer(backward[next], backward[here]);
      }
    }
  }
  return std::move(builder).build();
}

}  // namespace stepsim::test
