#include "sim/report/exposed.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/report/course.h"
#include "sim/report/readiness.h"

namespace stepsim {
namespace {

using Reason = ExposedReason;
constexpr size_t at(Reason r) { return static_cast<size_t>(r); }

bool backward(Pass p) {
  return p == Pass::backward || p == Pass::backward_data || p == Pass::backward_weight;
}

/// When a device's pipeline is in full swing.
struct Phase {
  double first_forward = 1e300, last_forward = 0, first_backward = 1e300, last_backward = 0;
};

std::vector<Phase> phases_of(const LoweredStep& step, const Timeline& timeline) {
  std::vector<Phase> phases(step.devices.size());
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const StreamId stream = step.graph.streams[t];
    if (stream == no_stream || stream_of(stream) != Stream::compute) continue;
    const Label label = Label::unpack(step.graph.labels[t]);
    if (row(label.op).task_class != TaskClass::compute) continue;
    Phase& p = phases[device_of(stream)];
    const double start = timeline.start_seconds[t], finish = timeline.finish_seconds[t];
    if (label.pass == Pass::forward) {
      p.first_forward = std::min(p.first_forward, start);
      p.last_forward = std::max(p.last_forward, finish);
    } else if (backward(label.pass)) {
      p.first_backward = std::min(p.first_backward, start);
      p.last_backward = std::max(p.last_backward, finish);
    }
  }
  return phases;
}

/// Operations by class, label without microbatch, and stage.
using Operations = std::map<std::tuple<CommClass, uint64_t, int>, ReasonSeconds>;

/// Gives every exposed stretch its reasons.
class Reasons {
 public:
  Reasons(const LoweredStep& step, const Timeline& timeline, const std::vector<ClosedGate>& gates)
      : step_(step),
        timeline_(timeline),
        gates_(gates),
        walk_(step, timeline),
        ready_(readiness(step, timeline)),
        excess_(step, timeline),
        phases_(phases_of(step, timeline)),
        by_device_(step.devices.size()) {}

  void busy(uint32_t device, const BusyStretch& stretch) {
    if (stretch.op->task_class != TaskClass::communication) return;
    add(device, stretch.task, remaining_reason(device, stretch.task, stretch.finish),
        stretch.seconds);
  }
  void idle(uint32_t device, const IdleStretch& s);

  std::vector<Operations>& operations() { return by_device_; }

 private:
  /// A stretch of time in which what waited at its end could have gone on.
  struct Window {
    double low = 0, high = 0;
    Reason reason = Reason::dependency;
  };

  double start(TaskId t) const { return timeline_.start_seconds[index(t)]; }
  double finish(TaskId t) const { return timeline_.finish_seconds[index(t)]; }
  bool marks(TaskId t) const {
    return row(label_of(step_.graph, t).op).task_class == TaskClass::marker;
  }
  /// What entered the transfer's queue: its last arrival, or the transfer itself.
  TaskId entry(TaskId transfer, uint32_t device) const {
    TaskId t = transfer;
    for (TaskId next = walk_.waited_on(t, device); next != no_task && marks(next);
         next = walk_.waited_on(t, device))
      t = next;
    return t;
  }
  const ClosedGate* gate(Label label) const {
    for (const ClosedGate& g : gates_)
      if (g.holds(label)) return &g;
    return nullptr;
  }
  void add(uint32_t device, TaskId transfer, Reason reason, double seconds) {
    if (!(seconds > 0)) return;
    Label label = label_of(step_.graph, transfer);
    if (gate(label) != nullptr) reason = Reason::gate_off;
    const CommClass c = row(label.op).comm;
    label.microbatch = Label::no_microbatch;
    by_device_[device][{c, label.packed(), step_.devices[device].stage}][at(reason)] += seconds;
  }
  /// What is left in [low, high] when windows have taken theirs.
  double carve(uint32_t device, TaskId transfer, double low, double high);
  void open_windows(TaskId entered);
  Reason remaining_reason(uint32_t device, TaskId transfer, double at_seconds) const;
  void explain(uint32_t device, const IdleStretch& s);

  const LoweredStep& step_;
  const Timeline& timeline_;
  const std::vector<ClosedGate>& gates_;
  IdleWalk walk_;
  Readiness ready_;
  TransferExcess excess_;
  std::vector<Phase> phases_;
  std::vector<Operations> by_device_;
  std::vector<Window> windows_;  ///< of the chain that is being followed, outermost first
  TaskId transfer_ = no_task;    ///< the last of it
};

double Reasons::carve(uint32_t device, TaskId transfer, double low, double high) {
  std::vector<std::pair<double, double>> pieces{{low, high}};
  std::erase_if(windows_, [&](const Window& w) { return w.low >= high; });
  for (const Window& w : windows_) {
    std::vector<std::pair<double, double>> left;
    for (const auto& piece : pieces) {
      const double begin = std::max(piece.first, w.low), end = std::min(piece.second, w.high);
      if (end <= begin) {
        left.push_back(piece);
        continue;
      }
      add(device, transfer, w.reason, end - begin);
      if (piece.first < begin) left.emplace_back(piece.first, begin);
      if (end < piece.second) left.emplace_back(end, piece.second);
    }
    pieces = std::move(left);
  }
  double rest = 0;
  for (const auto& piece : pieces) rest += piece.second - piece.first;
  return rest;
}

/// Behind the start of what entered a queue: what held it up though its data was there.
void Reasons::open_windows(TaskId entered) {
  const double data = ready_.data_seconds[index(entered)];
  const double queue = std::max(data, ready_.queue_seconds[index(entered)]);
  if (start(entered) > queue) windows_.push_back({queue, start(entered), Reason::launch_order});
  if (queue > data) windows_.push_back({data, queue, Reason::communicator_busy});
}

Reason Reasons::remaining_reason(uint32_t device, TaskId transfer, double at_seconds) const {
  const Label label = label_of(step_.graph, transfer);
  const Phase& p = phases_[device];
  switch (label.op) {
    case OpKind::dp_reduce_scatter:
    case OpKind::dp_all_reduce:
    case OpKind::edp_reduce_scatter:
    case OpKind::edp_all_reduce:
      return at_seconds > p.last_backward ? Reason::first_last_bucket : Reason::dependency;
    case OpKind::dp_all_gather:
    case OpKind::edp_all_gather:
      return at_seconds <= p.first_forward ? Reason::first_last_bucket : Reason::dependency;
    case OpKind::pp_forward:
    case OpKind::pp_backward:
      return at_seconds <= p.first_backward || at_seconds > p.last_forward ? Reason::warmup_cooldown
                                                                           : Reason::dependency;
    default:
      return Reason::dependency;
  }
}

void Reasons::explain(uint32_t device, const IdleStretch& s) {
  double rest = carve(device, s.task, s.low, s.high);
  const TaskId entered = entry(s.task, device);
  const auto take = [&](Reason reason, double seconds) {
    const double taken = std::min(rest, std::max(0.0, seconds));
    add(device, s.task, reason, taken);
    rest -= taken;
  };
  if (rest > 0) {
    // Delays that lie before the idle stretch; those inside it are links of the chain.
    const auto before = [&](double low, double high) { return std::min(high, s.idle_since) - low; };
    if (entered != s.task) take(Reason::no_sm, before(start(entered), finish(entered)));
    const Excess excess = excess_.of(s.task);
    take(Reason::no_sm, excess.sm_seconds);
    take(Reason::hbm, excess.memory_seconds);
    take(Reason::links, excess.link_seconds);
    const double data = ready_.data_seconds[index(entered)];
    const double queue = std::max(data, ready_.queue_seconds[index(entered)]);
    take(Reason::launch_order, before(queue, start(entered)));
    take(Reason::communicator_busy, before(data, queue));
    add(device, s.task, remaining_reason(device, s.task, s.high), rest);
  }
  open_windows(entered);
}

void Reasons::idle(uint32_t device, const IdleStretch& s) {
  if (s.first) {
    windows_.clear();
    transfer_ = no_task;
    // A kernel that waits for the start of another stream's operation: one launch queue.
    if (s.by_lag && s.next != no_task && s.task != no_task &&
        row(label_of(step_.graph, s.task).op).task_class != TaskClass::host)
      windows_.push_back({ready_.data_seconds[index(s.next)], start(s.next), Reason::launch_order});
  }
  if (s.task == no_task || s.by_lag || s.cause < Cause::exposed_tp) return;
  if (!marks(s.task)) {
    transfer_ = s.task;
    return explain(device, s);
  }
  // Arrived, and waits for SMs.
  add(device, transfer_, Reason::no_sm, carve(device, transfer_, s.low, s.high));
}

}  // namespace

ExposedTable exposed(const LoweredStep& step, const Timeline& timeline, const Report& report,
                     const std::vector<ClosedGate>& gates) {
  Reasons reasons(step, timeline, gates);
  follow(step, timeline, step_end(step, timeline), reasons);

  ExposedTable table;
  for (size_t c = 1; c < comm_class_count; ++c) {
    const std::optional<Communication>& hidden = report.communication.by_class[c];
    if (!hidden) continue;
    table.by_class[c].emplace();
    table.by_class[c]->hidden_seconds = hidden->hidden_seconds;
  }
  double ranks = 0;
  for (const SimulatedDevice& d : step.devices) ranks += static_cast<double>(d.represents);
  Operations all;
  for (size_t d = 0; d < step.devices.size(); ++d) {
    std::array<double, comm_class_count> found{};
    for (const auto& [key, seconds] : reasons.operations()[d])
      for (const double s : seconds) found[static_cast<size_t>(std::get<0>(key))] += s;
    const double weight = static_cast<double>(step.devices[d].represents) / std::max(1.0, ranks);
    for (const auto& [key, seconds] : reasons.operations()[d]) {
      const auto c = static_cast<size_t>(std::get<0>(key));
      // Without faults both are the same sum.
      const double reported = report.devices[d].ledger[exposed_cause(std::get<0>(key))];
      const double share = report.faults && found[c] > 0 ? reported / found[c] : 1;
      ReasonSeconds& sum = all[key];
      for (size_t r = 0; r < exposed_reason_count; ++r) sum[r] += weight * share * seconds[r];
    }
  }
  for (const auto& [key, seconds] : all) {
    ExposedClass& row = *table.by_class[static_cast<size_t>(std::get<0>(key))];
    ExposedOp op{.label = Label::unpack(std::get<1>(key)), .stage = std::get<2>(key)};
    for (size_t r = 0; r < exposed_reason_count; ++r) {
      op.seconds += seconds[r];
      row.reasons[r] += seconds[r];
      if (seconds[r] > seconds[at(op.reason)]) op.reason = static_cast<Reason>(r);
    }
    row.seconds += op.seconds;
    if (op.seconds > 0) row.offenders.push_back(op);
    for (const ClosedGate& g : gates) {
      if (!(seconds[at(Reason::gate_off)] > 0) || !g.holds(op.label)) continue;
      if (std::none_of(row.gates.begin(), row.gates.end(),
                       [&](const ClosedGate& other) { return other.key == g.key; }))
        row.gates.push_back(g);
    }
  }
  for (std::optional<ExposedClass>& row : table.by_class)
    if (row)
      std::stable_sort(
          row->offenders.begin(), row->offenders.end(),
          [](const ExposedOp& a, const ExposedOp& b) { return a.seconds > b.seconds; });
  return table;
}

}  // namespace stepsim
