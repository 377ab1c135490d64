#include "sim/report/interval.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/exponential.h"
#include "sim/config/doubts.h"

namespace stepsim {
namespace {

/// What `interval_deviations` holds.
constexpr double level = 0.8;
/// A host that takes so much longer may show where it is hidden now.
constexpr double host_margin = 1.0 / 3;

/// Types with a scale for each block of values.
bool block_scaled(Dtype type) {
  return type == Dtype::fp8_block || type == Dtype::mxfp8 || type == Dtype::nvfp4;
}

Doubt doubt_of(OpKind op, Doubt gemms) {
  using enum OpKind;
  constexpr std::array memory{embedding,
                              norm,
                              rope,
                              residual,
                              activation,
                              router,
                              permute,
                              unpermute,
                              expert_bias,
                              shared_activation,
                              expert_activation,
                              cross_entropy,
                              grad_accumulate,
                              reduce_chunks};
  if (op == attention) return Doubt::attention;
  if (op == mamba_in || op == mamba_conv || op == mamba_scan || op == mamba_out) return Doubt::scan;
  if (op == expert_fc1 || op == expert_fc2) return Doubt::grouped_gemm;
  if (op == quantize) return gemms == Doubt::gemm ? Doubt::memory : gemms;
  if (row(op).task_class == TaskClass::optimizer ||
      std::find(memory.begin(), memory.end(), op) != memory.end())
    return Doubt::memory;
  return gemms;
}

using DoubtByOp = std::array<Doubt, static_cast<size_t>(OpKind::count)>;

DoubtByOp doubts_of(Doubt gemms) {
  DoubtByOp all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = doubt_of(static_cast<OpKind>(i), gemms);
  return all;
}

Doubt doubt_of(Cause cause) {
  switch (cause) {
    case Cause::optimizer:
      return Doubt::memory;
    case Cause::contention:
      return Doubt::contention;
    case Cause::exposed_ep:
      return Doubt::dispatch;
    default:
      return Doubt::collectives;
  }
}

double& of(ByDoubt& shares, Doubt doubt) { return shares[static_cast<size_t>(doubt)]; }

/// How the time of compute kernels is spread, over all ranks.
ByDoubt kernel_shares(const LoweredStep& step, const Timeline& timeline, Doubt gemms) {
  ByDoubt shares{};
  const DoubtByOp doubts = doubts_of(gemms);  // looked up for every task
  double total = 0;
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const OpKind op = Label::unpack(step.graph.labels[t]).op;
    const StreamId stream = step.graph.streams[t];
    if (row(op).task_class != TaskClass::compute || stream == no_stream) continue;
    const double seconds = (timeline.finish_seconds[t] - timeline.start_seconds[t]) *
                           static_cast<double>(step.devices[device_of(stream)].represents);
    of(shares, doubts[static_cast<size_t>(op)]) += seconds;
    total += seconds;
  }
  for (double& share : shares) share /= std::max(total, 1e-300);
  return shares;
}

/// Mean time of a rank in which its host works.
double host_seconds(const LoweredStep& step, const Timeline& timeline) {
  double seconds = 0, ranks = 0;
  for (const SimulatedDevice& device : step.devices)
    ranks += static_cast<double>(device.represents);
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const StreamId stream = step.graph.streams[t];
    if (stream == no_stream || stream_of(stream) != Stream::host ||
        row(Label::unpack(step.graph.labels[t]).op).task_class != TaskClass::host)
      continue;
    seconds += (timeline.finish_seconds[t] - timeline.start_seconds[t]) *
               static_cast<double>(step.devices[device_of(stream)].represents);
  }
  return seconds / std::max(ranks, 1.0);
}

}  // namespace

double interval_factor(const ByDoubt& shares, const ByDoubt& doubts) {
  double variance = 0;
  for (size_t d = 0; d < doubt_count; ++d) {
    const double part = shares[d] * doubts[d];
    variance += part * part;
  }
  // Times are positive: the same factor either way.
  return exact_exp(interval_deviations * std::sqrt(variance));
}

std::optional<StepInterval> step_interval(const Scenario& scenario, const LoweredStep& step,
                                          const Timeline& timeline, const Ledger& mean,
                                          double step_seconds) {
  if (step_seconds <= 0 || !scenario.doubts) return std::nullopt;
  StepInterval interval{.level = level, .widest = {}};
  ByDoubt& shares = interval.shares;
  shares = kernel_shares(
      step, timeline,
      block_scaled(gemm_dtype(scenario.precision)) ? Doubt::low_precision : Doubt::gemm);
  const double kernels = (mean[Cause::compute] + mean[Cause::bubble]) / step_seconds;
  for (double& share : shares) share *= kernels;
  for (size_t c = 0; c < cause_count; ++c) {
    const auto cause = static_cast<Cause>(c);
    if (cause == Cause::compute || cause == Cause::bubble || cause == Cause::skew ||
        cause == Cause::host)
      continue;
    of(shares, doubt_of(cause)) += mean[cause] / step_seconds;
  }
  if (scenario.data_parallel.fully_sharded != FullySharded::none) of(shares, Doubt::sharded) = 1;
  const double longer = host_seconds(step, timeline) * (1 + host_margin) / step_seconds - 1;
  of(shares, Doubt::host) = std::clamp(longer / host_margin, mean[Cause::host] / step_seconds, 1.0);
  of(shares, Doubt::whole) = 1;
  double variance = 0, most = -1;
  for (const DoubtRow& row : doubt_rows) {
    const double doubted =
        of(shares, row.doubt) * (*scenario.doubts)[static_cast<size_t>(row.doubt)];
    const double part = doubted * doubted;
    variance += part;
    if (part <= most) continue;
    most = part;
    interval.widest = row.name;
  }
  interval.widest_share = most / variance;
  const double factor = interval_factor(shares, *scenario.doubts);
  interval.low_seconds = step_seconds / factor;
  interval.high_seconds = step_seconds * factor;
  return interval;
}

}  // namespace stepsim
