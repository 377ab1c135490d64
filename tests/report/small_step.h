// Steps of a handful of tasks, written as a list of what runs where and after what.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <variant>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/engine/task_graph_builder.h"
#include "sim/lower/lowered.h"

namespace stepsim {

inline const std::vector<SimulatedDevice> one_device{{.rank = 0}};
inline const std::vector<SimulatedDevice> two_stages{{.rank = 0, .stage = 0},
                                                     {.rank = 1, .stage = 1}};
inline const std::vector<SimulatedDevice> two_peers{{.rank = 0, .stage = 0},
                                                    {.rank = 1, .stage = 0}};

/// A step and how it ran.
struct RanStep {
  LoweredStep step;
  Timeline timeline;
};

/// Writes tasks in id order. Times are whole seconds in most tests, so that expected values can be
/// read off.
class SmallStep {
 public:
  /// One device an entry; `rank` is its place in the list unless said otherwise.
  explicit SmallStep(std::vector<SimulatedDevice> devices)
      : devices_(std::move(devices)),
        builder_(static_cast<uint32_t>(devices_.size()) * stream_count) {}

  TaskId add(uint32_t device, Stream stream, OpKind op, double seconds,
             std::initializer_list<TaskId> after = {}, Label label = {}) {
    label.op = op;
    const TaskId task = builder_.add_task(seconds, stream_id(device, stream), label.packed());
    for (const TaskId t : after) builder_.add_edge(t, task);
    return task;
  }
  TaskId compute(uint32_t device, double seconds, std::initializer_list<TaskId> after = {}) {
    return add(device, Stream::compute, OpKind::fc1_gemm, seconds, after);
  }
  /// The kernel starts `lag` after its launch does.
  void launched(TaskId launch, TaskId kernel, double lag) {
    builder_.add_start_edge(launch, kernel, lag);
  }
  /// A pipeline transfer from `sender`, once `ready`, that `receiver` joins on its own queue once
  /// `posted`.
  TaskId send(uint32_t sender, uint32_t receiver, double seconds, TaskId ready,
              std::initializer_list<TaskId> posted = {}, bool backward = false) {
    const Stream to = backward ? Stream::pp_recv_next : Stream::pp_recv_prev;
    const TaskId arrival = add(receiver, to, OpKind::arrive, 0, posted);
    const TaskId transfer =
        add(sender, backward ? Stream::pp_send_prev : Stream::pp_send_next,
            backward ? OpKind::pp_backward : OpKind::pp_forward, seconds, {ready, arrival});
    join(transfer, receiver, to, arrival);
    return transfer;
  }
  void join(TaskId transfer, uint32_t device, Stream stream, TaskId arrival) {
    members_.push_back({transfer, stream_id(device, stream), arrival});
  }
  TaskGraphBuilder& builder() { return builder_; }

  RanStep run(bool barrier = false) && {
    RanStep ran{LoweredStep{.graph = std::move(builder_).build(),
                            .devices = std::move(devices_),
                            .members = std::move(members_),
                            .memory_events = {},
                            .memory = {},
                            .buckets = {},
                            .barrier = barrier},
                {}};
    ran.timeline = std::get<Timeline>(stepsim::run(ran.step.graph));
    return ran;
  }

 private:
  std::vector<SimulatedDevice> devices_;
  std::vector<RendezvousMember> members_;
  TaskGraphBuilder builder_;
};

/// 1F1B (Narayanan et al. 2021, figure 4 top): stage s runs p-1-s forwards, then pairs, then the
/// backwards left over.
inline RanStep one_f_one_b_step(int p, int m, double forward, double backward, double transfer) {
  std::vector<SimulatedDevice> devices;
  for (int s = 0; s < p; ++s) devices.push_back({.rank = s, .stage = s});
  SmallStep step(std::move(devices));
  const auto at = [m](int s, int mb) { return static_cast<size_t>(s * m + mb); };
  std::vector<TaskId> f(at(p, 0), no_task), b(at(p, 0), no_task);
  // Tasks are added in schedule order, a stage at a time; edges between stages once all exist.
  for (int s = 0; s < p; ++s) {
    const auto stage = static_cast<uint32_t>(s);
    const int warm_up = std::min(m, p - 1 - s);
    for (int i = 0; i < warm_up; ++i) f[at(s, i)] = step.compute(stage, forward);
    for (int i = warm_up; i < m; ++i) {
      f[at(s, i)] = step.compute(stage, forward);
      b[at(s, i - warm_up)] = step.compute(stage, backward);
    }
    for (int i = m - warm_up; i < m; ++i) b[at(s, i)] = step.compute(stage, backward);
  }
  for (int s = 0; s + 1 < p; ++s) {
    const auto stage = static_cast<uint32_t>(s);
    for (int i = 0; i < m; ++i) {
      const TaskId activation = step.send(stage, stage + 1, transfer, f[at(s, i)]);
      step.builder().add_edge(activation, f[at(s + 1, i)]);
      const TaskId gradient = step.send(stage + 1, stage, transfer, b[at(s + 1, i)], {}, true);
      step.builder().add_edge(gradient, b[at(s, i)]);
    }
  }
  return std::move(step).run();
}

}  // namespace stepsim
