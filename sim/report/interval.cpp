#include "sim/report/interval.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stepsim {
namespace {

enum class Doubt {
  gemm,
  grouped_gemm,
  attention,
  scan,
  memory,
  collectives,
  dispatch,
  host,
  contention,
  whole,
  count
};

/// Relative standard deviation of what one parameter decides, and where it is from.
struct DoubtRow {
  std::string_view name;
  double sigma;
};
// gemm, attention, memory, grouped_gemm: the limits that every cell of published kernels keeps as a
// median (tests/published/kernels.csv), which in a step are one GPU's and one library's and do not
// average out; scan: what is left of Mamba rows of kernels.csv. Collectives and dispatchers: the
// residuals of tests/published/collectives.csv and dispatch.csv. Host: the spread of published
// launches and operators around one value a host. Contention: kernels beside collectives take 19 %
// longer on average and 40 % at most (arXiv 2507.03114), twice the mean. Whole: two publications of
// one step differ by 0.5 % and two releases by 1.7 % in the median; clocks of one GPU by 5 %.
constexpr std::array<DoubtRow, static_cast<size_t>(Doubt::count)> doubt_rows{{
    {"GEMM rates", 0.05},
    {"rates of experts' GEMMs", 0.15},
    {"attention rates", 0.10},
    {"rates of state-space scans", 0.50},
    {"sustained memory bandwidth", 0.15},
    {"rates of collectives", 0.10},
    {"rates of expert dispatch", 0.20},
    {"the host's time per operator", 0.30},
    {"what kernels and transfers take from each other", 0.50},
    {"clocks and releases", 0.025},
}};
/// 80 % of a normal distribution lie within so many standard deviations.
constexpr double level = 0.8, deviations = 1.2816;

constexpr Doubt doubt_of(OpKind op) {
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
                              mamba_conv,
                              cross_entropy,
                              quantize,
                              grad_accumulate,
                              reduce_chunks};
  if (op == attention) return Doubt::attention;
  if (op == mamba_scan) return Doubt::scan;
  if (op == expert_fc1 || op == expert_fc2) return Doubt::grouped_gemm;
  if (row(op).task_class == TaskClass::optimizer ||
      std::find(memory.begin(), memory.end(), op) != memory.end())
    return Doubt::memory;
  return Doubt::gemm;
}

/// By OpKind: looked up for every task.
constexpr auto doubts = [] {
  std::array<Doubt, static_cast<size_t>(OpKind::count)> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = doubt_of(static_cast<OpKind>(i));
  return all;
}();

Doubt doubt_of(Cause cause) {
  switch (cause) {
    case Cause::optimizer:
      return Doubt::memory;
    case Cause::host:
      return Doubt::host;
    case Cause::contention:
      return Doubt::contention;
    case Cause::exposed_ep:
      return Doubt::dispatch;
    default:
      return Doubt::collectives;
  }
}

using Shares = std::array<double, static_cast<size_t>(Doubt::count)>;

/// How the time of compute kernels is spread, over all ranks.
Shares kernel_shares(const LoweredStep& step, const Timeline& timeline) {
  Shares shares{};
  double total = 0;
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const OpKind op = Label::unpack(step.graph.labels[t]).op;
    const StreamId stream = step.graph.streams[t];
    if (row(op).task_class != TaskClass::compute || stream == no_stream) continue;
    const double seconds = (timeline.finish_seconds[t] - timeline.start_seconds[t]) *
                           static_cast<double>(step.devices[device_of(stream)].represents);
    shares[static_cast<size_t>(doubts[static_cast<size_t>(op)])] += seconds;
    total += seconds;
  }
  for (double& share : shares) share /= std::max(total, 1e-300);
  return shares;
}

}  // namespace

std::optional<StepInterval> step_interval(const LoweredStep& step, const Timeline& timeline,
                                          const Ledger& mean, double step_seconds) {
  if (step_seconds <= 0) return std::nullopt;
  Shares shares = kernel_shares(step, timeline);
  const double kernels = (mean[Cause::compute] + mean[Cause::bubble]) / step_seconds;
  for (double& share : shares) share *= kernels;
  for (size_t c = 0; c < cause_count; ++c) {
    const auto cause = static_cast<Cause>(c);
    if (cause != Cause::compute && cause != Cause::bubble && cause != Cause::skew)
      shares[static_cast<size_t>(doubt_of(cause))] += mean[cause] / step_seconds;
  }
  shares[static_cast<size_t>(Doubt::whole)] = 1;
  double variance = 0, most = -1;
  StepInterval interval{.level = level, .widest = {}};
  for (size_t p = 0; p < shares.size(); ++p) {
    const double part = std::pow(shares[p] * doubt_rows[p].sigma, 2);
    variance += part;
    if (part <= most) continue;
    most = part;
    interval.widest = doubt_rows[p].name;
  }
  interval.widest_share = most / variance;
  // Times are positive: the same factor either way.
  const double factor = std::exp(deviations * std::sqrt(variance));
  interval.low_seconds = step_seconds / factor;
  interval.high_seconds = step_seconds * factor;
  return interval;
}

}  // namespace stepsim
