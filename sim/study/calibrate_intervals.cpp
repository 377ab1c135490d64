#include "sim/study/calibrate_intervals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/error.h"
#include "sim/config/doubts.h"
#include "sim/report/interval.h"
#include "sim/study/dispatch_rows.h"
#include "sim/study/hardware_file.h"
#include "sim/study/robust_fit.h"
#include "sim/study/validate_kernels.h"

namespace stepsim {
namespace {

constexpr double quantile = 0.8;
/// Cost of a factor of 2 from a prior, in the unit of the check function.
constexpr double held = 0.7;
constexpr double smallest_doubt = 0.005, largest_doubt = 1.5, doubt_step = 0.005;
constexpr int least_rows = 5;

/// Where nothing is measured alone. Host: the spread of published launches and operators around one
/// value a host. Contention: kernels beside collectives take 19 % longer on average and 40 % at
/// most (arXiv 2507.03114), twice the mean. Whole: two publications of one step differ by 0.5 % and
/// two releases by 1.7 % in the median. Sharded: no publication tells a framework's share apart.
constexpr std::array<std::pair<Doubt, double>, 4> stated{
    {{Doubt::host, 0.3}, {Doubt::contention, 0.5}, {Doubt::sharded, 0.05}, {Doubt::whole, 0.02}}};

double& of(ByDoubt& values, Doubt doubt) { return values[static_cast<size_t>(doubt)]; }

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

Doubt doubt_of_cell(const KernelCell& cell) {
  const auto kind = [&](KernelKind k) { return cell.kind == kernel_kind_name(k); };
  if (kind(KernelKind::grouped_gemm)) return Doubt::grouped_gemm;
  if (kind(KernelKind::attention)) return Doubt::attention;
  if (kind(KernelKind::memory)) return Doubt::memory;
  if (kind(KernelKind::scan)) return Doubt::scan;
  const auto says = [&](const char* word) { return cell.dtype.find(word) != std::string::npos; };
  return says("block") || says("mx") || says("fp4") ? Doubt::low_precision : Doubt::gemm;
}

/// Check function of quantile regression, and what holds each kind to its prior.
double cost_of(const std::vector<MeasuredStep>& rows, const std::vector<double>& weights,
               const ByDoubt& doubts, const ByDoubt& priors) {
  double cost = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const MeasuredStep& row = rows[i];
    const double error = std::abs(std::log(row.predicted_seconds / row.measured_seconds));
    const double beyond =
        std::log(std::max(error, 1e-4) / std::log(interval_factor(row.doubt_shares, doubts)));
    cost += weights[i] * (beyond > 0 ? quantile * beyond : (quantile - 1) * beyond);
  }
  for (size_t d = 0; d < doubt_count; ++d)
    cost += held * std::pow(std::log2(doubts[d] / priors[d]), 2);
  return cost;
}

double share_inside(const std::vector<MeasuredStep>& rows, const ByDoubt& doubts) {
  int inside = 0;
  for (const MeasuredStep& row : rows)
    inside += std::abs(std::log(row.predicted_seconds / row.measured_seconds)) <=
              std::log(interval_factor(row.doubt_shares, doubts));
  return rows.empty() ? 0 : inside / static_cast<double>(rows.size());
}

Coverage coverage_of(const std::string& file, const std::vector<MeasuredStep>& rows,
                     const ByDoubt& before, const ByDoubt& after) {
  std::vector<double> widths;
  for (const MeasuredStep& row : rows)
    widths.push_back(interval_factor(row.doubt_shares, after) - 1);
  return {file, static_cast<int>(rows.size()), share_inside(rows, before),
          share_inside(rows, after), median_of(widths)};
}

}  // namespace

ByDoubt doubt_priors(const std::string& kernels, const std::vector<std::string>& collectives,
                     const DataPaths& data) {
  std::map<Doubt, std::vector<double>> errors;
  for (const KernelCell& cell : validate_kernels(kernels, data).cells)
    if (cell.errors.count >= least_rows && cell.kind != kernel_kind_name(KernelKind::small_gemm))
      errors[doubt_of_cell(cell)].push_back(cell.errors.median_abs);
  for (const std::string& file : collectives)
    for (const CollectiveCell& cell : validate_collectives(file, data).cells)
      if (cell.large.count >= least_rows)
        errors[is_dispatch(cell.op) ? Doubt::dispatch : Doubt::collectives].push_back(
            cell.large.median_abs);
  ByDoubt priors{};
  for (const auto& [doubt, value] : stated) of(priors, doubt) = value;
  for (const DoubtRow& row : doubt_rows) {
    double& prior = of(priors, row.doubt);
    if (prior > 0) continue;
    prior = std::max(median_of(errors[row.doubt]), 2 * smallest_doubt);
  }
  return priors;
}

ByDoubt fit_doubts(const std::vector<MeasuredStep>& rows, const ByDoubt& priors,
                   std::vector<double> weights) {
  weights.resize(rows.size(), 1);
  ByDoubt doubts = priors;
  double best = cost_of(rows, weights, doubts, priors);
  // One kind at a time by ever smaller factors: a few numbers, a cheap cost with kinks.
  for (double factor = 2; factor > 1.005; factor = std::sqrt(factor))
    for (bool better = true; better;) {
      better = false;
      for (size_t d = 0; d < doubt_count; ++d)
        for (const double by : {factor, 1 / factor}) {
          ByDoubt trial = doubts;
          trial[d] = std::clamp(trial[d] * by, smallest_doubt, largest_doubt);
          const double cost = cost_of(rows, weights, trial, priors);
          if (cost >= best - 1e-9) continue;
          best = cost;
          doubts = trial;
          better = true;
        }
    }
  for (double& doubt : doubts) doubt = std::max(written(doubt, doubt_step), smallest_doubt);
  return doubts;
}

IntervalCalibration calibrate_intervals(const std::vector<std::string>& steps,
                                        const std::string& kernels,
                                        const std::vector<std::string>& collectives,
                                        const DataPaths& data) {
  const Doubts shipped = read_doubts(data.root);
  if (!shipped)
    throw Error((data.root / "hardware/measurements/doubts.json").string(), "", "is missing");
  std::vector<StepRow> rows;
  std::vector<std::string> files;
  for (StepSample& sample : read_samples(steps, data)) {
    rows.push_back(std::move(sample.row));
    files.push_back(sample.file);
  }
  predict(rows);
  std::map<std::string, std::vector<MeasuredStep>> by_file;
  std::vector<MeasuredStep> all;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].row.failure.empty()) continue;
    all.push_back(rows[i].row);
    by_file[files[i]].push_back(rows[i].row);
  }
  if (all.empty()) throw Error("--intervals", "", "no row there counts: nothing to fit");
  const ByDoubt priors = doubt_priors(kernels, collectives, data);
  // A file of many rows would decide for all: each counts as much.
  std::vector<double> weights;
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].row.failure.empty())
      weights.push_back(static_cast<double>(all.size()) /
                        static_cast<double>(by_file.size() * by_file[files[i]].size()));
  const ByDoubt fitted = fit_doubts(all, priors, weights);
  IntervalCalibration result;
  HardwareFile file(data.root / "hardware/measurements/doubts.json");
  for (const DoubtRow& row : doubt_rows) {
    const auto d = static_cast<size_t>(row.doubt);
    double share = 0;
    for (const MeasuredStep& step : all)
      share += step.doubt_shares[d] / static_cast<double>(all.size());
    result.doubts.push_back(
        {std::string(row.key), std::string(row.name), priors[d], (*shipped)[d], fitted[d], share});
    file.set("/doubts/" + std::string(row.key), fitted[d], "", "");
  }
  for (const auto& [name, own] : by_file)
    result.files.push_back(coverage_of(name, own, *shipped, fitted));
  result.files.push_back(coverage_of("all", all, *shipped, fitted));
  result.file_text = file.text();
  return result;
}

std::string calibration_text(const IntervalCalibration& c) {
  std::string text = fmt::format("{:<56}{:>8}{:>9}{:>9}{:>9}\n", "relative standard deviation",
                                 "share", "prior", "before", "after");
  for (const FittedDoubt& d : c.doubts)
    text += fmt::format("{:<56}{:>6.1f} %{:>9.3f}{:>9.3f}{:>9.3f}\n", d.name, 100 * d.share,
                        d.prior, d.before, d.after);
  text += fmt::format("\n{:<56}{:>8}{:>9}{:>9}{:>9}\n", "measured times inside the 80 % interval",
                      "steps", "before", "after", "width");
  for (const Coverage& f : c.files)
    text += fmt::format("{:<56.56}{:>8}{:>7.0f} %{:>7.0f} %  +-{:>3.0f} %\n", f.file, f.steps,
                        100 * f.before, 100 * f.after, 100 * f.half_width);
  return text;
}

}  // namespace stepsim
