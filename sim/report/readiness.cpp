#include "sim/report/readiness.h"

#include <algorithm>
#include <cmath>

#include "sim/engine/processors.h"

namespace stepsim {
namespace {

using Role = ProcessorClaim::Role;

/// `to` goes on with what `from` has begun: pieces of one operation differ in their number only.
bool same_operation(Label from, Label to) {
  const CommClass c = row(from.op).comm;
  if (c == CommClass::none || c == CommClass::dp || c == CommClass::edp) return false;
  if (to.op == OpKind::arrive) to.op = from.op;
  if (from.part == to.part) return false;
  from.part = to.part = 0;
  return from.packed() == to.packed();
}

}  // namespace

Readiness readiness(const LoweredStep& step, const Timeline& timeline) {
  const TaskGraph& graph = step.graph;
  Readiness ready{.data_seconds = std::vector<double>(graph.task_count()),
                  .queue_seconds = std::vector<double>(graph.task_count())};
  for (uint32_t u = 0; u < graph.task_count(); ++u) {
    const double finish = timeline.finish_seconds[u];
    const Label from = Label::unpack(graph.labels[u]);
    for (uint32_t e = graph.finish_offsets[u]; e < graph.finish_offsets[u + 1]; ++e) {
      const uint32_t v = graph.finish_targets[e];
      double& data = ready.data_seconds[v];
      double& queue = ready.queue_seconds[v];
      const bool in_queue = graph.streams[u] != no_stream && graph.streams[u] == graph.streams[v] &&
                            !same_operation(from, Label::unpack(graph.labels[v]));
      // Of several edges within a queue the one from its last task is the queue's.
      if (!in_queue) {
        data = std::max(data, finish);
      } else if (finish > queue) {
        data = std::max(data, queue);
        queue = finish;
      } else {
        data = std::max(data, finish);
      }
    }
  }
  return ready;
}

const FlowRow* TransferExcess::flow_of(TaskId task) const {
  const auto& flows = step_.graph.flows;
  const auto found =
      std::lower_bound(flows.begin(), flows.end(), task,
                       [](const FlowRow& f, TaskId t) { return index(f.task) < index(t); });
  return found == flows.end() || found->task != task ? nullptr : &*found;
}

void TransferExcess::gather() {
  const TaskGraph& graph = step_.graph;
  resources_.resize(graph.capacities.size());
  kernels_.resize(step_.devices.size());
  for (const FlowRow& flow : graph.flows) {
    const uint32_t t = index(flow.task);
    const StreamId stream = graph.streams[t];
    const bool kernel = stream != no_stream && stream_of(stream) == Stream::compute;
    if (kernel) kernels_[device_of(stream)].push_back(flow.task);
    for (const Claim& claim : graph.claims_of(flow)) {
      Resource& r = resources_[index(claim.resource)];
      const Use use{timeline_.start_seconds[t], timeline_.finish_seconds[t],
                    double{claim.rate} * claim.multiplicity};
      if (use.finish <= use.start) continue;
      r.memory = r.memory || kernel;
      r.longest_seconds = std::max(r.longest_seconds, use.finish - use.start);
      r.uses.push_back(use);
    }
  }
  for (Resource& r : resources_)
    std::stable_sort(r.uses.begin(), r.uses.end(),
                     [](const Use& a, const Use& b) { return a.start < b.start; });
}

/// Mean of what is asked for in [low, high].
double TransferExcess::load(const Resource& resource, double low, double high) const {
  auto use =
      std::lower_bound(resource.uses.begin(), resource.uses.end(), low - resource.longest_seconds,
                       [](const Use& u, double at) { return u.start < at; });
  double sum = 0;
  for (; use != resource.uses.end() && use->start < high; ++use)
    sum += use->rate * std::max(0.0, std::min(high, use->finish) - std::max(low, use->start));
  return sum / (high - low);
}

double TransferExcess::sm_wait(TaskId transfer, const FlowRow& flow) const {
  const TaskGraph& graph = step_.graph;
  const double start = timeline_.start_seconds[index(transfer)];
  double wait = 0;
  for (const ProcessorClaim& hold : graph.processor_claims_of(flow)) {
    if (hold.role != Role::hold || index(hold.pool) >= kernels_.size()) continue;
    const std::vector<TaskId>& kernels = kernels_[index(hold.pool)];
    const auto after = std::upper_bound(
        kernels.begin(), kernels.end(), start,
        [&](double at, TaskId t) { return at < timeline_.start_seconds[index(t)]; });
    if (after == kernels.begin()) continue;
    const TaskId kernel = *(after - 1);
    const double begin = timeline_.start_seconds[index(kernel)];
    const double finish = timeline_.finish_seconds[index(kernel)];
    if (finish <= start || (begin == start && !hold.yields)) continue;
    for (const ProcessorClaim& runner : graph.processor_claims_of(*flow_of(kernel))) {
      if (runner.role != Role::run || runner.blocks == 0 ||
          hold.count + occupied(runner) <= graph.pool_sizes[index(hold.pool)])
        continue;
      // Waves are equal parts of a kernel's work; how it was slowed within it is not known.
      const double waves =
          runner.persistent ? 1 : std::ceil(double{1} * runner.blocks / runner.count);
      const double wave = (finish - begin) / waves;
      const double through = std::max(1.0, std::ceil((start - begin) / wave - 1e-9));
      wait = std::max(wait, begin + through * wave - start);
    }
  }
  return wait;
}

Excess TransferExcess::of(TaskId transfer) {
  const uint32_t t = index(transfer);
  const double start = timeline_.start_seconds[t], finish = timeline_.finish_seconds[t];
  const double all = finish - start - step_.graph.durations_seconds[t];
  Excess excess;
  if (!(all > 1e-9 * (finish - start))) return excess;
  const FlowRow* flow = flow_of(transfer);
  if (flow == nullptr) return excess;
  if (resources_.empty()) gather();
  excess.sm_seconds = std::min(all, sm_wait(transfer, *flow));
  const double low = start + excess.sm_seconds;
  double most = 0;
  bool memory = false;
  for (const Claim& claim : step_.graph.claims_of(*flow)) {
    const Resource& r = resources_[index(claim.resource)];
    const double asked = load(r, low, finish) / step_.graph.capacities[index(claim.resource)];
    if (asked <= most) continue;
    most = asked;
    memory = r.memory;
  }
  (memory ? excess.memory_seconds : excess.link_seconds) = all - excess.sm_seconds;
  return excess;
}

}  // namespace stepsim
