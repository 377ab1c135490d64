#include "sim/study/robust_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace stepsim {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double loss_scale = 0.05, slope_felt = 1e-3, near = 3e-3;
constexpr int most_iterations = 60;

VectorXd vector_of(const std::vector<double>& values) {
  return Eigen::Map<const VectorXd>(values.data(), static_cast<long>(values.size()));
}

std::vector<double> moved(const std::vector<double>& from, const VectorXd& step,
                          std::span<const FreeParameter> parameters) {
  std::vector<double> to = from;
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = std::clamp(from[i] * std::exp(std::clamp(step[static_cast<long>(i)], -0.5, 0.5)),
                       parameters[i].low, parameters[i].high);
  return to;
}

double loss_of(const VectorXd& r) { return (r / loss_scale).array().square().log1p().sum(); }

VectorXd weights_of(const VectorXd& r) {
  return (1 + (r / loss_scale).array().square()).inverse().matrix();
}

/// By central differences; one-sided at a bound, and where slopes are taken once.
MatrixXd slopes_at(const std::vector<double>& values, std::span<const FreeParameter> parameters,
                   const Residuals& residuals, FitOptions options) {
  MatrixXd slopes;
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<double> up = values, down = values;
    up[i] = std::min(parameters[i].high, values[i] * std::exp(options.nudge));
    if (!options.slopes_once || up[i] <= values[i])
      down[i] = std::max(parameters[i].low, values[i] * std::exp(-options.nudge));
    const VectorXd difference = vector_of(residuals(up)) - vector_of(residuals(down));
    if (i == 0) slopes = MatrixXd::Zero(difference.size(), static_cast<long>(values.size()));
    const double width = std::log(up[i] / down[i]);
    if (width > 0) slopes.col(static_cast<long>(i)) = difference / width;
  }
  return slopes;
}

}  // namespace

double written(double value, double step) {
  if (step >= 1) return std::round(value / step) * step;
  const double parts = std::round(1 / step);
  return std::round(value * parts) / parts;
}

RobustFit robust_fit(std::span<const FreeParameter> parameters, const Residuals& residuals,
                     FitOptions options) {
  const auto n = static_cast<long>(parameters.size());
  RobustFit fit;
  for (const FreeParameter& p : parameters) fit.values.push_back(p.value);
  VectorXd r = vector_of(residuals(fit.values));
  double damping = options.slopes_once ? 1e-6 : 1e-2;
  MatrixXd slopes, normal = MatrixXd::Identity(n, n);
  VectorXd weights = weights_of(r);
  for (int iteration = 0; iteration < most_iterations && damping < 1e8; ++iteration) {
    if (iteration == 0 || !options.slopes_once)
      slopes = slopes_at(fit.values, parameters, residuals, options);
    weights = weights_of(r);
    normal = slopes.transpose() * weights.asDiagonal() * slopes;
    const VectorXd gradient = slopes.transpose() * weights.asDiagonal() * r;
    MatrixXd damped = normal;
    damped.diagonal() += damping * (normal.diagonal().array() + 1e-9).matrix();
    const VectorXd step = -damped.ldlt().solve(gradient);
    const std::vector<double> next = moved(fit.values, step, parameters);
    const VectorXd trial = vector_of(residuals(next));
    const double gain = loss_of(r) - loss_of(trial);
    if (gain <= 0) {
      // Slopes of the start lead no further than this.
      if (options.slopes_once && step.cwiseAbs().maxCoeff() < near) break;
      damping *= options.slopes_once ? 1000 : 10;
      continue;
    }
    fit.values = next;
    r = trial;
    damping = std::max(1e-6, damping / 5);
    if (gain < (options.slopes_once ? 1e-4 : 1e-7) * loss_of(r)) break;
  }
  const double freedom = std::max(1.0, static_cast<double>(r.size() - n));
  const double spread = (weights.array() * r.array().square()).sum() / freedom;
  MatrixXd regular = normal;
  regular.diagonal().array() += 1e-12;
  const VectorXd variance = regular.inverse().diagonal() * spread;
  for (long i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    fit.standard_errors.push_back(fit.values[at] * std::sqrt(std::max(0.0, variance[i])));
    fit.values[at] = written(fit.values[at], parameters[at].step);
    fit.slopes.emplace_back(slopes.col(i).begin(), slopes.col(i).end());
  }
  return fit;
}

std::vector<double> refit(const RobustFit& fit, std::span<const FreeParameter> parameters,
                          const std::vector<double>& residuals, const std::vector<bool>& in) {
  const auto n = static_cast<long>(parameters.size());
  std::vector<long> rows;
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i]) rows.push_back(static_cast<long>(i));
  MatrixXd slopes(static_cast<long>(rows.size()), n);
  VectorXd start(static_cast<long>(rows.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<size_t>(rows[i]);
    start[static_cast<long>(i)] = residuals[row];
    for (long p = 0; p < n; ++p)
      slopes(static_cast<long>(i), p) = fit.slopes[static_cast<size_t>(p)][row];
  }
  // Residuals are linear here: the reweighted solution is reached in a few rounds.
  VectorXd step = VectorXd::Zero(n);
  for (int round = 0; round < most_iterations; ++round) {
    const VectorXd weights = weights_of(start + slopes * step);
    MatrixXd normal = slopes.transpose() * weights.asDiagonal() * slopes;
    normal.diagonal().array() += 1e-9;
    step = -normal.ldlt().solve(slopes.transpose() * weights.asDiagonal() * start);
  }
  std::vector<double> values = moved(fit.values, step, parameters);
  for (long p = 0; p < n; ++p)
    if (slopes.rows() == 0 || slopes.col(p).norm() < slope_felt) values[static_cast<size_t>(p)] = 0;
  return values;
}

}  // namespace stepsim
