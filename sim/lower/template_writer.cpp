#include "sim/lower/template_writer.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace stepsim {

ProcessorClaim runner_of(const Kernel& kernel) {
  return {.pool = {},
          .role = ProcessorClaim::Role::run,
          .persistent = kernel.persistent,
          .yields = false,
          .count = static_cast<uint32_t>(kernel.sms),
          .blocks = static_cast<uint32_t>(std::min<int64_t>(kernel.blocks, UINT32_MAX)),
          .saturating = static_cast<uint32_t>(kernel.saturating_sms)};
}

namespace {

/// Traffic a second after a time has changed: the same bytes, but never at a higher rate.
double rate_over(double rate, double before, double after) {
  return after > before ? rate * (before / after) : rate;
}

}  // namespace

Kernel with_time(const Kernel& kernel, const KernelTime& time, double slowdown) {
  if (!time.changes()) return kernel;
  Kernel changed = kernel;
  const double before = kernel.duration.value;
  changed.duration = {time.seconds > 0 ? time.seconds * slowdown : time.of(before)};
  if (changed.duration < kernel.duration)
    changed.memory = kernel.memory * (changed.duration.value / before);
  return changed;
}

int32_t TemplateWriter::compute(OpKind op, const Kernel& kernel, int part) {
  TemplateOp t{
      .duration_seconds = kernel.duration.value,
      .memory_rate = kernel.duration > Seconds{} ? (kernel.memory / kernel.duration).value : 0,
      .runner = runner_of(kernel),
      .op = op,
      .pass = pass_,
      .part = saturated_part(static_cast<size_t>(part)),
      .captured = captured_,
      .nodes = std::exchange(nodes_, 0),
      .other = other_};
  assert(pending_.size() <= t.after.size());
  std::copy(pending_.begin(), pending_.end(), t.after.begin());
  pending_.clear();
  template_.ops.push_back(t);
  return last_compute_ = static_cast<int32_t>(template_.ops.size()) - 1;
}

int32_t TemplateWriter::communicate(OpKind op, Stream stream, const CollectiveCost& cost,
                                    int part) {
  return communicate_after(last_compute_, op, stream, cost, part);
}

int32_t TemplateWriter::communicate_after(int32_t after, OpKind op, Stream stream,
                                          const CollectiveCost& cost, int part) {
  TemplateOp t{.duration_seconds = cost.duration.value,
               .latency_seconds = cost.latency.value,
               .nvlink_rate = cost.nvlink_rate.value,
               .nic_rate = cost.nic_rate.value,
               .memory_rate = cost.hbm_rate.value,
               .runner = {},
               .sms = static_cast<uint32_t>(cost.sms),
               .op = op,
               .pass = pass_,
               .stream = stream,
               .part = saturated_part(static_cast<size_t>(part)),
               .userbuffers = cost.algorithm == "copy",
               .captured = captured_,
               .nodes = std::exchange(nodes_, 0),
               .other = other_};
  t.after[0] = after;
  template_.ops.push_back(t);
  return static_cast<int32_t>(template_.ops.size()) - 1;
}

void TemplateWriter::weight(OpKind op, const Kernel& kernel, int count) {
  if (frozen_) return;
  if (deferring_)
    deferred_.push_back({op, kernel, count});
  else
    compute_weight(op, kernel, count);
}

void TemplateWriter::compute_weight(OpKind op, const Kernel& kernel, int count) {
  const Pass pass = std::exchange(pass_, Pass::backward_weight);
  compute(op, kernel);
  launches(count);
  pass_ = pass;
}

void TemplateWriter::flush_weights() {
  for (const DeferredKernel& d : std::exchange(deferred_, {}))
    compute_weight(d.op, d.kernel, d.count);
}

void TemplateWriter::host_sync(int32_t op) {
  if (captured_ || op < 0) return;
  template_.segments.push_back(
      {.first_op = static_cast<int32_t>(template_.ops.size()), .waits_for = op});
}

void TemplateWriter::replace_times(const KernelTimes& times, double slowdown) {
  if (times.empty()) return;
  std::vector<TemplateOp*> pieces;  // of one split kernel: they share its time
  const auto replace = [&] {
    double before = 0;
    for (const TemplateOp* piece : pieces) before += piece->duration_seconds;
    for (TemplateOp* piece : pieces) {
      const KernelTime& time = times.of(piece->op, piece->pass);
      if (!time.changes()) break;
      double& own = piece->duration_seconds;
      const double share = before > 0 ? own / before : 1.0 / static_cast<double>(pieces.size());
      const double after = time.seconds > 0 ? time.seconds * slowdown * share : time.of(own);
      piece->memory_rate = rate_over(piece->memory_rate, own, after);
      own = after;
    }
    pieces.clear();
  };
  for (TemplateOp& op : template_.ops) {
    if (op.stream != Stream::compute) continue;
    const TemplateOp* last = pieces.empty() ? nullptr : pieces.back();
    if (last == nullptr || op.op != last->op || op.pass != last->pass || op.other != last->other ||
        op.part != last->part + 1)
      replace();
    pieces.push_back(&op);
  }
  replace();
}

Template TemplateWriter::finish(LaunchCost launch) && {
  assert(pending_.empty());
  template_.segments.insert(template_.segments.begin(), LaunchSegment{});
  // earliest[i]: how long after the first launch op i can start at the soonest, by launches inside
  // this template.
  std::vector<double> earliest(template_.ops.size());
  // By segment: what an earlier one launched is known to be launched, not when.
  Seconds issued;
  std::array<int32_t, stream_count> tail;
  tail.fill(TemplateOp::none);
  auto segment = template_.segments.begin();
  int32_t begins = 0;
  for (size_t i = 0; i < template_.ops.size(); ++i) {
    TemplateOp& op = template_.ops[i];
    while (segment + 1 != template_.segments.end() &&
           (segment + 1)->first_op <= static_cast<int32_t>(i)) {
      segment->host_seconds = issued.value;
      issued = {};
      begins = (++segment)->first_op;
    }
    issued += launch.dispatch * op.nodes;
    if (op.captured) {
      if (i == 0 || !template_.ops[i - 1].captured) issued += launch.graph;
    } else {
      issued += launch.launch * op.launches;
      if (op.part == 0 && op.op != OpKind::tp_exchange) issued += launch.dispatch * op.operators;
    }
    op.launch_lag_seconds = issued.value;
    double implied = -1;
    const auto behind = [&](int32_t p) {
      if (p < begins) return;
      const auto j = static_cast<size_t>(p);
      implied = std::max(implied, earliest[j] + template_.ops[j].duration_seconds);
    };
    int32_t& last = tail[static_cast<size_t>(op.stream)];
    behind(last);
    for (int32_t p : op.after) behind(p);
    op.launch_edge = op.launch_lag_seconds > implied;
    earliest[i] = std::max(op.launch_lag_seconds, implied);
    last = static_cast<int32_t>(i);
  }
  segment->host_seconds = issued.value;
  return std::move(template_);
}

}  // namespace stepsim
