// How far predictions may be off, fitted to how far they are.
#include "sim/study/calibrate_intervals.h"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/config/doubts.h"
#include "sim/report/interval.h"

using namespace stepsim;

namespace {

ByDoubt all(double value) {
  ByDoubt doubts;
  doubts.fill(value);
  return doubts;
}

/// `kind` decides a share of the step; errors rise evenly to `most`.
std::vector<MeasuredStep> steps(Doubt kind, double share, double most, int count) {
  std::vector<MeasuredStep> rows(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    MeasuredStep& row = rows[static_cast<size_t>(i)];
    row.doubt_shares[static_cast<size_t>(kind)] = share;
    row.measured_seconds = 1;
    row.predicted_seconds = std::exp((i % 2 == 0 ? 1 : -1) * most * (i + 0.5) / count);
  }
  return rows;
}

double at(const ByDoubt& doubts, Doubt kind) { return doubts[static_cast<size_t>(kind)]; }

}  // namespace

// exp(1.2816 * 0.5 * 0.1): one kind that is half of the step.
TEST_CASE("an interval is the root of the sum of squares") {
  ByDoubt shares{};
  shares[0] = 0.5;
  CHECK(interval_factor(shares, all(0.1)) == doctest::Approx(std::exp(0.06408)));
  shares[1] = 0.5;
  CHECK(interval_factor(shares, all(0.1)) == doctest::Approx(std::exp(0.06408 * std::sqrt(2))));
}

// 80 % of errors that rise evenly to 0.2 are below 0.16 = 1.2816 * share * sigma: with half of the
// step sigma is 0.25. A kind that no step has stays at its prior.
TEST_CASE("the fit finds the quantile, and leaves alone what no step feels") {
  const ByDoubt fitted = fit_doubts(steps(Doubt::scan, 0.5, 0.2, 200), all(0.1));
  CHECK(at(fitted, Doubt::scan) == doctest::Approx(0.25).epsilon(0.04));
  CHECK(at(fitted, Doubt::host) == doctest::Approx(0.1));
}

// All but a thousandth of the weight is on errors up to 0.2, the rest on none.
TEST_CASE("steps count by their weights") {
  std::vector<MeasuredStep> rows = steps(Doubt::scan, 0.5, 0.2, 200);
  const std::vector<MeasuredStep> exact = steps(Doubt::scan, 0.5, 0, 200);
  rows.insert(rows.end(), exact.begin(), exact.end());
  std::vector<double> weights(400, 1);
  std::fill(weights.begin() + 200, weights.end(), 0.001);
  CHECK(at(fit_doubts(rows, all(0.1), weights), Doubt::scan) ==
        doctest::Approx(0.25).epsilon(0.04));
  CHECK(at(fit_doubts(rows, all(0.1)), Doubt::scan) < 0.22);
}

TEST_CASE("few steps move a kind less than many") {
  const double few = at(fit_doubts(steps(Doubt::host, 1, 1, 4), all(0.1)), Doubt::host);
  const double many = at(fit_doubts(steps(Doubt::host, 1, 1, 400), all(0.1)), Doubt::host);
  CHECK(few > 0.1);
  CHECK(few < many);
  CHECK(many == doctest::Approx(0.8 / 1.2816).epsilon(0.04));
}

TEST_CASE("shipped doubts: every kind is there") {
  const Doubts doubts = read_doubts(find_data().root);
  REQUIRE(doubts.has_value());
  for (const double doubt : *doubts) CHECK(doubt > 0);
  for (size_t i = 0; i < doubt_count; ++i) CHECK(doubt_rows[i].doubt == static_cast<Doubt>(i));
  CHECK_FALSE(read_doubts("no-such-folder").has_value());
}
