// The fit that every calibration uses.
#include "sim/study/robust_fit.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace stepsim;

namespace {

/// Rows y = a x^b, of which a and b are fitted.
const std::vector<double> places{1, 2, 4, 8, 16, 32};

Residuals power_law(double a, double b) {
  return [=](const std::vector<double>& values) {
    std::vector<double> r;
    for (const double x : places)
      r.push_back(std::log(values[0] * std::pow(x, values[1]) / (a * std::pow(x, b))));
    return r;
  };
}

}  // namespace

TEST_CASE("parameters of exact rows are found, with slopes at every step and with slopes once") {
  const std::vector<FreeParameter> start{{5, 1, 100, 0.01}, {1, 0.1, 3, 0.01}};
  for (const bool once : {false, true}) {
    const RobustFit fit =
        robust_fit(start, power_law(7, 0.5), {.nudge = 1e-3, .slopes_once = once});
    CHECK(fit.values[0] == doctest::Approx(7).epsilon(0.01));
    CHECK(fit.values[1] == doctest::Approx(0.5).epsilon(0.02));
  }
}

// One row in six is off by a factor of 2: least squares would move a by 12 %, the loss lets it pull
// like a row that is off by 5 %.
TEST_CASE("a row that is far off pulls little") {
  const std::vector<FreeParameter> start{{5, 1, 100, 0.01}};
  const RobustFit fit = robust_fit(start, [](const std::vector<double>& values) {
    std::vector<double> r(6, std::log(values[0] / 7));
    r[0] -= std::log(2);
    return r;
  });
  CHECK(fit.values[0] == doctest::Approx(7).epsilon(0.01));
}

TEST_CASE("bounds hold, digits are few") {
  const RobustFit fit =
      robust_fit(std::vector<FreeParameter>{{5, 1, 6, 0.05}, {1, 0.1, 3, 0.1}}, power_law(7, 0.5));
  CHECK(fit.values[0] == 6);
  CHECK(written(0.7349, 0.005) == 0.735);
  CHECK(written(103.4, 10) == 100);
}

// Exact and linear in logarithms: what the others give is the same, and a parameter that only the
// rows left out feel is 0.
TEST_CASE("rows are left out by slopes") {
  const std::vector<FreeParameter> start{{5, 1, 100, 0.01}, {2, 1, 100, 0.01}};
  const Residuals two = [](const std::vector<double>& values) {
    return std::vector<double>{std::log(values[0] / 7), std::log(values[0] / 7),
                               std::log(values[1] / 3), std::log(values[1] / 4)};
  };
  const RobustFit fit = robust_fit(start, two);
  const std::vector<double> without = refit(fit, start, two(fit.values), {true, true, true, false});
  CHECK(without[0] == doctest::Approx(7).epsilon(0.005));
  CHECK(without[1] == doctest::Approx(3).epsilon(0.005));
  CHECK(refit(fit, start, two(fit.values), {true, true, false, false})[1] == 0);
}
