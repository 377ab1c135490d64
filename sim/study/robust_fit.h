// Robust least squares in logarithms of positive parameters, within bounds.
//
// Loss: log(1 + (r/0.05)^2), so that a row that is off by 30 % pulls no more than a few good ones
// (Cauchy's; Hampel et al., Robust Statistics). Levenberg-Marquardt, reweighted by the loss
// (Marquardt 1963). Standard errors from the curvature at the optimum, scaled by the spread of the
// residuals. Results are written with few digits; from them the fit leads to the same again.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace stepsim {

struct FreeParameter {
  double value = 1, low = 0, high = 0;
  double step = 0;  ///< the digits that are written
};
/// As it is written: to the step, and to the nearest double of that decimal.
double written(double value, double step);

/// log(predicted / measured) of every row.
using Residuals = std::function<std::vector<double>(const std::vector<double>& values)>;

struct FitOptions {
  double nudge = 1e-3;       ///< of a logarithm, for slopes
  bool slopes_once = false;  ///< where residuals are dear and nearly linear
};
struct RobustFit {
  std::vector<double> values;  ///< as written
  std::vector<double> standard_errors;
  std::vector<std::vector<double>> slopes;  ///< by parameter: of each residual by its logarithm
};
RobustFit robust_fit(std::span<const FreeParameter> parameters, const Residuals& residuals,
                     FitOptions options = {});

/// What the rows with `in` alone would give, from slopes and residuals at `fit`: no row is
/// predicted anew. A parameter that no such row feels is 0.
std::vector<double> refit(const RobustFit& fit, std::span<const FreeParameter> parameters,
                          const std::vector<double>& residuals, const std::vector<bool>& in);

}  // namespace stepsim
