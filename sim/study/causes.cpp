#include "sim/study/causes.h"

#include <algorithm>
#include <array>
#include <map>

#include "sim/report/step_end.h"

namespace stepsim {
namespace {

using Kinds = std::array<double, static_cast<size_t>(OpKind::count)>;

/// Kernels of every compute stream at their speed alone, cut off at the step's end as the ledger
/// cuts them.
Kinds kernel_seconds(const Simulation& run) {
  const LoweredStep& step = run.lowered;
  const TaskGraph& graph = step.graph;
  const Timeline& timeline = run.timeline;
  const StepEnd end = step_end(step, timeline);
  const size_t devices = step.devices.size();
  std::vector<std::array<CompensatedSum, static_cast<size_t>(OpKind::count)>> sums(devices);
  std::vector<double> cursors(devices);
  for (size_t d = 0; d < devices; ++d) cursors[d] = end.begin(d);
  size_t flow = 0;
  for (uint32_t t = 0; t < graph.task_count(); ++t) {
    const StreamId stream = graph.streams[t];
    if (stream == no_stream || stream_of(stream) != Stream::compute) continue;
    const uint32_t device = device_of(stream);
    const double until = end.finish(device);
    if (timeline.start_seconds[t] > until) continue;
    const double finish = std::min(timeline.finish_seconds[t], until);
    while (flow < graph.flows.size() && index(graph.flows[flow].task) < t) ++flow;
    const bool claims = flow < graph.flows.size() && index(graph.flows[flow].task) == t;
    const double seconds = finish - std::max(timeline.start_seconds[t], cursors[device]);
    const double excess = claims ? std::max(0.0, seconds - graph.durations_seconds[t]) : 0.0;
    cursors[device] = std::max(cursors[device], finish);
    sums[device][static_cast<size_t>(label_of(graph, TaskId{t}).op)].add(std::max(0.0, seconds) -
                                                                         excess);
  }
  Kinds mean{};
  double ranks = 0;
  for (size_t d = 0; d < devices; ++d) {
    const auto weight = static_cast<double>(step.devices[d].represents);
    ranks += weight;
    for (size_t k = 0; k < mean.size(); ++k) mean[k] += weight * sums[d][k].value();
  }
  for (double& seconds : mean) seconds /= std::max(ranks, 1.0);
  return mean;
}

/// Rounding of sums goes to the largest row, so that the rows add up.
void close(std::vector<CauseRow>& rows, double from, double to) {
  if (rows.empty()) return;
  const auto largest =
      std::max_element(rows.begin(), rows.end(), [](const CauseRow& x, const CauseRow& y) {
        return x.from_seconds + x.to_seconds < y.from_seconds + y.to_seconds;
      });
  for (const CauseRow& row : rows) {
    from -= row.from_seconds;
    to -= row.to_seconds;
  }
  largest->from_seconds += from;
  largest->to_seconds += to;
}

std::vector<CauseRow> kernel_parts(const Kinds& a, const Kinds& b, TaskClass of) {
  std::vector<CauseRow> rows;
  for (const OpRow& op : op_rows) {
    const auto k = static_cast<size_t>(op.op);
    if (op.task_class == of && (a[k] != 0 || b[k] != 0))
      rows.push_back({std::string(op.name), a[k], b[k]});
  }
  return rows;
}

}  // namespace

std::vector<CauseRow> kernel_rows(const Simulation& step, TaskClass of) {
  const Kinds seconds = kernel_seconds(step);
  return kernel_parts(seconds, seconds, of);
}

std::vector<CauseRow> causes(const Simulation& a, const Simulation& b) {
  const Kinds left = kernel_seconds(a), right = kernel_seconds(b);
  std::vector<CauseRow> rows;
  for (size_t c = 0; c < cause_count; ++c) {
    const auto cause = static_cast<Cause>(c);
    rows.push_back({std::string(name(cause)), a.report.ledger[cause], b.report.ledger[cause]});
  }
  close(rows, a.report.step_seconds, b.report.step_seconds);
  for (const auto& [cause, of] : {std::pair{Cause::compute, TaskClass::compute},
                                  std::pair{Cause::optimizer, TaskClass::optimizer}}) {
    CauseRow& row = rows[static_cast<size_t>(cause)];
    row.parts = kernel_parts(left, right, of);
    close(row.parts, row.from_seconds, row.to_seconds);
  }
  return rows;
}

std::vector<CauseRow> critical_causes(const Report& a, const Report& b) {
  std::map<std::string, CauseRow> rows;
  for (const PathPart& p : a.critical_path) rows[std::string(p.kind)].from_seconds += p.seconds;
  for (const PathPart& p : b.critical_path) rows[std::string(p.kind)].to_seconds += p.seconds;
  std::vector<CauseRow> result;
  for (auto& [kind, row] : rows) {
    row.name = kind;
    result.push_back(std::move(row));
  }
  close(result, a.step_seconds, b.step_seconds);
  return result;
}

}  // namespace stepsim
