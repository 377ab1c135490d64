#include "sim/report/ledger.h"

#include <algorithm>
#include <cassert>

namespace stepsim {

std::string_view name(Cause cause) {
  constexpr std::array<std::string_view, cause_count> names{
      "compute",     "contention",     "optimizer",         "host",
      "bubble",      "skew",           "exposed_tp",        "exposed_cp",
      "exposed_pp",  "exposed_dp",     "exposed_embedding", "exposed_ep",
      "exposed_edp", "exposed_offload"};
  return names[static_cast<size_t>(cause)];
}

namespace {

/// Steps back to back: what a device that began at 0 takes is what all take.
StepEnd period(const LoweredStep& step, const Timeline& timeline) {
  StepEnd end;
  for (TaskId release : step.releases)
    end.begins.push_back(timeline.finish_seconds[index(release)]);
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const StreamId stream = step.graph.streams[t];
    if (stream == no_stream || stream_of(stream) != Stream::compute) continue;
    if (end.begins[device_of(stream)] > 0) continue;
    if (timeline.finish_seconds[t] <= end.seconds && end.task != no_task) continue;
    end.seconds = timeline.finish_seconds[t];
    end.task = TaskId{t};
  }
  return end;
}

}  // namespace

StepEnd step_end(const LoweredStep& step, const Timeline& timeline) {
  if (!step.releases.empty()) return period(step, timeline);
  StepEnd end;
  const uint32_t count = step.graph.task_count();
  for (uint32_t t = 0; t < count; ++t) {
    if (timeline.finish_seconds[t] <= end.seconds && end.task != no_task) continue;
    if (step.barrier && Label::unpack(step.graph.labels[t]).op != OpKind::norm_all_reduce) continue;
    end = {timeline.finish_seconds[t], TaskId{t}, {}};
  }
  if (end.task != no_task || !step.barrier) return end;
  // A step that was to end at a barrier but has none runs to its makespan.
  for (uint32_t t = 0; t < count; ++t) {
    if (timeline.finish_seconds[t] > end.seconds || end.task == no_task)
      end = {timeline.finish_seconds[t], TaskId{t}, {}};
  }
  return end;
}

namespace {

Cause exposed(CommClass c) {
  assert(c != CommClass::none);
  return static_cast<Cause>(static_cast<int>(Cause::exposed_tp) + static_cast<int>(c) - 1);
}

/// Explains idle stretches; holds what the walk needs to know about transfers between devices.
class Walk {
 public:
  Walk(const LoweredStep& step, const Timeline& timeline, std::vector<IdlePart>* idle)
      : step_(step),
        graph_(step.graph),
        timeline_(timeline),
        shared_(graph_.task_count(), false),
        idle_(idle) {
    for (const RendezvousMember& m : step.members) shared_[index(m.transfer)] = true;
  }

  using Sums = std::array<CompensatedSum, cause_count>;

  /// Attributes [low, high] on `device`, given that `task` (the first of the chain) held it up
  /// until `high`: by running until then, or, when `by_lag`, by the lag after its start.
  void explain(Sums& sums, uint32_t device, double low, double high, TaskId task,
               bool by_lag) const {
    const int stage = step_.devices[device].stage;
    const auto add = [&](Cause cause, double seconds) {
      sums[static_cast<size_t>(cause)].add(seconds);
      if (idle_ != nullptr && seconds > 0) idle_->push_back({device, cause, high - seconds, high});
    };
    CommClass arriving = CommClass::none;  // of the transfer whose arrival comes next in the chain
    while (high > low) {
      if (task == no_task) return add(Cause::bubble, high - low);
      const double begin = std::max(low, std::min(high, timeline_.start_seconds[index(task)]));
      if (by_lag) {
        add(Cause::host, high - begin);
      } else {
        const OpRow& op = row(label_of(graph_, task).op);
        const StreamId stream = graph_.streams[index(task)];
        const bool known = stream != no_stream;
        const bool same_stage = known && step_.devices[device_of(stream)].stage == stage;
        switch (op.task_class) {
          case TaskClass::marker:
            // A member that arrived and waits for SMs.
            if (high > begin)
              add(arriving == CommClass::none ? Cause::bubble : exposed(arriving), high - begin);
            break;
          case TaskClass::host:
            if (!same_stage) return add(Cause::bubble, high - low);
            add(Cause::host, high - begin);
            break;
          case TaskClass::communication:
            if (!same_stage && !serves(task, stage)) return add(Cause::bubble, high - low);
            add(exposed(op.comm), high - begin);
            arriving = op.comm;
            break;
          case TaskClass::compute:
          case TaskClass::optimizer:
            return add(same_stage && device_of(stream) != device ? Cause::skew : Cause::bubble,
                       high - low);
        }
      }
      high = begin;
      const TaskId next = waited_on(task, device);
      by_lag = next != no_task && !waited_for_finish(timeline_, next, task);
      task = next;
    }
  }

 private:
  std::pair<std::vector<RendezvousMember>::const_iterator,
            std::vector<RendezvousMember>::const_iterator>
  members(TaskId transfer) const {
    return std::equal_range(step_.members.begin(), step_.members.end(),
                            RendezvousMember{.transfer = transfer},
                            [](const RendezvousMember& a, const RendezvousMember& b) {
                              return index(a.transfer) < index(b.transfer);
                            });
  }
  /// A device of `stage` takes part in the transfer.
  bool serves(TaskId transfer, int stage) const {
    if (!shared_[index(transfer)]) return false;
    const auto [first, last] = members(transfer);
    return std::any_of(first, last, [&](const RendezvousMember& m) {
      return step_.devices[device_of(m.stream)].stage == stage;
    });
  }
  /// The binding; but when this device's own arrival came as late as any, its own chain explains
  /// the wait, so that alike ranks give the same ledger whether one or all of them are simulated.
  TaskId waited_on(TaskId task, uint32_t device) const {
    if (shared_[index(task)]) {
      const auto [first, last] = members(task);
      for (auto m = first; m != last; ++m) {
        if (m->arrival != no_task && device_of(m->stream) == device &&
            waited_for_finish(timeline_, m->arrival, task))
          return m->arrival;
      }
    }
    return timeline_.binding[index(task)];
  }

  const LoweredStep& step_;
  const TaskGraph& graph_;
  const Timeline& timeline_;
  std::vector<bool> shared_;  ///< by task: has rows in `members`
  std::vector<IdlePart>* idle_;
};

/// What one device has been through up to `cursor`.
struct Account {
  Walk::Sums sums;
  double cursor_seconds = 0;
  TaskId last = no_task;  ///< a task of any of its streams that finishes at the step end
};

/// Of a blocking operation of the compute stream.
Cause idle_cause(TaskClass task_class, CommClass comm) {
  if (task_class == TaskClass::host) return Cause::host;
  return task_class == TaskClass::communication ? exposed(comm) : Cause::bubble;
}

/// A kernel or a blocking operation of the compute stream, already clipped to the step.
void add_busy(Account& account, TaskClass task_class, CommClass comm, double seconds,
              double excess) {
  const auto sum = [&](Cause c) -> CompensatedSum& { return account.sums[static_cast<size_t>(c)]; };
  switch (task_class) {
    case TaskClass::compute:
    case TaskClass::optimizer:
      if (excess > 0) sum(Cause::contention).add(excess);
      return sum(task_class == TaskClass::compute ? Cause::compute : Cause::optimizer)
          .add(seconds - excess);
    case TaskClass::host:
    case TaskClass::communication:
    case TaskClass::marker:
      return sum(idle_cause(task_class, comm)).add(seconds);
  }
}

}  // namespace

std::vector<Ledger> ledgers(const LoweredStep& step, const Timeline& timeline, StepEnd end,
                            std::vector<IdlePart>* idle) {
  const TaskGraph& graph = step.graph;
  const Walk walk(step, timeline, idle);
  std::vector<Account> accounts(step.devices.size());
  for (size_t d = 0; d < accounts.size(); ++d) accounts[d].cursor_seconds = end.begin(d);
  size_t flow = 0;  // flows are in ascending task order
  for (uint32_t t = 0; t < graph.task_count(); ++t) {
    const StreamId stream = graph.streams[t];
    if (stream == no_stream) continue;
    const uint32_t device = device_of(stream);
    Account& account = accounts[device];
    const double until = end.finish(device);
    if (timeline.finish_seconds[t] == until && account.last == no_task) account.last = TaskId{t};
    if (stream_of(stream) != Stream::compute) continue;
    const double start = std::min(timeline.start_seconds[t], until);
    const double finish = std::min(timeline.finish_seconds[t], until);
    if (start > account.cursor_seconds) {
      const TaskId binding = timeline.binding[t];
      // A task cut off by the step end waits for nothing within it; the tail below explains that
      // stretch.
      if (timeline.start_seconds[t] > until) continue;
      const bool by_lag = binding != no_task && !waited_for_finish(timeline, binding, TaskId{t});
      walk.explain(account.sums, device, account.cursor_seconds, start, binding, by_lag);
    }
    const OpRow& op = row(Label::unpack(graph.labels[t]).op);
    while (flow < graph.flows.size() && index(graph.flows[flow].task) < t) ++flow;
    const bool claims = flow < graph.flows.size() && index(graph.flows[flow].task) == t;
    const double seconds = finish - std::max(start, account.cursor_seconds);
    const double excess = claims ? std::max(0.0, seconds - graph.durations_seconds[t]) : 0.0;
    add_busy(account, op.task_class, op.comm, std::max(0.0, seconds), excess);
    if (idle != nullptr && seconds > 0 && op.task_class != TaskClass::compute &&
        op.task_class != TaskClass::optimizer)
      idle->push_back({device, idle_cause(op.task_class, op.comm), finish - seconds, finish});
    account.cursor_seconds = std::max(account.cursor_seconds, finish);
  }
  std::vector<Ledger> result(accounts.size());
  for (uint32_t d = 0; d < accounts.size(); ++d) {
    Account& account = accounts[d];
    walk.explain(account.sums, d, account.cursor_seconds, end.finish(d),
                 account.last != no_task ? account.last : end.task, false);
    for (size_t c = 0; c < cause_count; ++c) result[d].seconds[c] = account.sums[c].value();
  }
  return result;
}

Ledger with_skew(Ledger faulty, const Ledger& sound) {
  const auto idle = [](const Ledger& l) { return l.sum() - l.busy(); };
  const double found = std::max(0.0, faulty[Cause::skew] - sound[Cause::skew]);
  const double missing = idle(faulty) - idle(sound) - found;
  if (missing <= 0) return faulty;
  std::array<double, cause_count> growth{};
  double all = 0;
  for (size_t c = static_cast<size_t>(Cause::host); c < cause_count; ++c) {
    if (static_cast<Cause>(c) == Cause::skew) continue;
    growth[c] = std::max(0.0, faulty.seconds[c] - sound.seconds[c]);
    all += growth[c];
  }
  const double share = std::min(1.0, missing / all);
  if (!(all > 0)) return faulty;
  for (size_t c = 0; c < cause_count; ++c) {
    faulty.seconds[c] -= share * growth[c];
    faulty.seconds[static_cast<size_t>(Cause::skew)] += share * growth[c];
  }
  return faulty;
}

Ledger mean_ledger(const std::vector<Ledger>& ledgers,
                   const std::vector<SimulatedDevice>& devices) {
  Ledger mean;
  double ranks = 0;
  for (size_t d = 0; d < ledgers.size(); ++d) {
    const auto weight = static_cast<double>(devices[d].represents);
    ranks += weight;
    for (size_t c = 0; c < cause_count; ++c) mean.seconds[c] += weight * ledgers[d].seconds[c];
  }
  for (double& s : mean.seconds) s /= std::max(ranks, 1.0);
  return mean;
}

}  // namespace stepsim
