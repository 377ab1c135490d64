// Collectives that others measured, against the model with the shipped hardware files.
//
// Law: over the cells (system, operation) of five rows or more, messages from 1 MiB on are
// predicted within 12 % in the median of all, and no cell beyond 25 %; below 1 MiB within a factor
// of 2.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>

#include "sim/study/validate_collectives.h"

using namespace stepsim;

TEST_CASE("published collectives") {
  const CollectiveValidation validation =
      validate_collectives("tests/published/collectives.csv", find_data());
  std::fputs(validation_text(validation).c_str(), stdout);

  const RelativeErrors& all = validation.overall.large;
  CHECK(all.count > 1100);
  CHECK(all.median_abs < 0.08);
  std::vector<double> medians;
  for (const CollectiveCell& cell : validation.cells) {
    CAPTURE(cell.system);
    CAPTURE(cell.op);
    if (cell.large.count < 5) continue;
    medians.push_back(cell.large.median_abs);
    CHECK(cell.large.median_abs < 0.25);
  }
  CHECK(medians.size() > 35);
  CHECK(statistics_of(medians).median_abs < 0.12);
  CHECK(validation.overall.small.count > 250);
  CHECK(validation.overall.beyond_double <= validation.overall.small.count / 20);
  // The sources that print which algorithm ran: NVLS on 8 H100 and H200, rings below 2 MiB.
  CHECK(validation.named >= 15);
  CHECK(validation.agreed == validation.named);
  for (const MeasuredCollective& row : validation.rows)
    CHECK((row.failure.empty() || row.failure.starts_with("left out: ")));
}

TEST_CASE("statistics of errors") {
  // Sizes 0.1, 0.2, 0.3, 0.4; nearest rank of 0.9 x 4 is the fourth.
  const RelativeErrors s = statistics_of({0.1, -0.2, 0.3, -0.4});
  CHECK(s.count == 4);
  CHECK(s.mean_abs == doctest::Approx(0.25));
  CHECK(s.median_abs == doctest::Approx(0.25));
  CHECK(s.p90_abs == doctest::Approx(0.4));
  CHECK(s.max_abs == doctest::Approx(0.4));
  CHECK(s.bias == doctest::Approx(-0.05));
  CHECK(statistics_of({}).count == 0);
}
