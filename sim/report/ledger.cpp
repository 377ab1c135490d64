#include "sim/report/ledger.h"

#include <algorithm>

#include "sim/report/course.h"

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

/// Adds up what the course of a step says.
struct LedgerSums {
  std::vector<std::array<CompensatedSum, cause_count>> devices;

  void add(uint32_t device, Cause cause, double seconds) {
    devices[device][static_cast<size_t>(cause)].add(seconds);
  }
  void idle(uint32_t device, const IdleStretch& stretch) {
    add(device, stretch.cause, stretch.seconds());
  }
  /// A kernel or a blocking operation of the compute stream, already clipped to the step.
  void busy(uint32_t device, const BusyStretch& stretch) {
    const OpRow& op = *stretch.op;
    switch (op.task_class) {
      case TaskClass::compute:
      case TaskClass::optimizer:
        if (stretch.excess > 0) add(device, Cause::contention, stretch.excess);
        return add(device, op.task_class == TaskClass::compute ? Cause::compute : Cause::optimizer,
                   stretch.seconds - stretch.excess);
      case TaskClass::host:
        return add(device, Cause::host, stretch.seconds);
      case TaskClass::communication:
        return add(device, exposed_cause(op.comm), stretch.seconds);
      case TaskClass::marker:
        return add(device, Cause::bubble, stretch.seconds);
    }
  }
};

}  // namespace

std::vector<Ledger> ledgers(const LoweredStep& step, const Timeline& timeline, StepEnd end) {
  LedgerSums sums{.devices =
                      std::vector<std::array<CompensatedSum, cause_count>>(step.devices.size())};
  follow(step, timeline, end, sums);
  std::vector<Ledger> result(step.devices.size());
  for (size_t d = 0; d < result.size(); ++d)
    for (size_t c = 0; c < cause_count; ++c) result[d].seconds[c] = sums.devices[d][c].value();
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
