#include "sim/report/idle.h"

#include <utility>

namespace stepsim {

IdleWalk::IdleWalk(const LoweredStep& step, const Timeline& timeline)
    : step_(step), timeline_(timeline), shared_(step.graph.task_count(), false) {
  for (const RendezvousMember& m : step.members) shared_[index(m.transfer)] = true;
}

IdleWalk::Verdict IdleWalk::verdict(uint32_t device, TaskId task, bool by_lag,
                                    CommClass arriving) const {
  if (by_lag) return {Cause::host};
  const int stage = step_.devices[device].stage;
  const OpRow& op = row(label_of(step_.graph, task).op);
  const StreamId stream = step_.graph.streams[index(task)];
  const bool same_stage = stream != no_stream && step_.devices[device_of(stream)].stage == stage;
  switch (op.task_class) {
    case TaskClass::marker:
      // A member that arrived and waits for SMs.
      return {arriving == CommClass::none ? Cause::bubble : exposed_cause(arriving)};
    case TaskClass::host:
      if (!same_stage) return {Cause::bubble, true};
      return {Cause::host};
    case TaskClass::communication:
      if (!same_stage && !serves(task, stage)) return {Cause::bubble, true};
      return {exposed_cause(op.comm)};
    case TaskClass::compute:
    case TaskClass::optimizer:
      return {same_stage && device_of(stream) != device ? Cause::skew : Cause::bubble, true};
  }
  return {Cause::bubble, true};
}

namespace {

auto members_of(const LoweredStep& step, TaskId transfer) {
  return std::equal_range(step.members.begin(), step.members.end(),
                          RendezvousMember{.transfer = transfer},
                          [](const RendezvousMember& a, const RendezvousMember& b) {
                            return index(a.transfer) < index(b.transfer);
                          });
}

}  // namespace

/// A device of `stage` takes part in the transfer.
bool IdleWalk::serves(TaskId transfer, int stage) const {
  if (!shared_[index(transfer)]) return false;
  const auto members = members_of(step_, transfer);
  return std::any_of(members.first, members.second, [&](const RendezvousMember& m) {
    return step_.devices[device_of(m.stream)].stage == stage;
  });
}

TaskId IdleWalk::waited_on(TaskId task, uint32_t device) const {
  if (shared_[index(task)]) {
    const auto members = members_of(step_, task);
    for (auto m = members.first; m != members.second; ++m) {
      if (m->arrival != no_task && device_of(m->stream) == device &&
          waited_for_finish(timeline_, m->arrival, task))
        return m->arrival;
    }
  }
  return timeline_.binding[index(task)];
}

}  // namespace stepsim
