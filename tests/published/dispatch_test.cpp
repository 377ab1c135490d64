// Dispatch and combine kernels that others measured, against the model with the shipped hardware
// files: figures of a GPU and a library, none of a row.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>

#include "sim/study/validate_collectives.h"

using namespace stepsim;

TEST_CASE("published dispatch and combine kernels") {
  const CollectiveValidation validation =
      validate_collectives("tests/published/dispatch.csv", find_data());
  for (const MeasuredCollective& row : validation.rows)
    if (row.failure.empty())
      std::fputs(
          fmt::format("{:<20}{:<12}{:>4} ranks {:<28}{:>9.1f} us measured{:>9.1f} predicted"
                      "{:>+8.1f} %\n",
                      row.system, row.op, row.gpus, row.algorithm_named, row.measured_seconds * 1e6,
                      row.predicted_seconds * 1e6, 100 * row.error())
              .c_str(),
          stdout);
  std::fputs(validation_text(validation).c_str(), stdout);
  const RelativeErrors& all = validation.overall.large;
  CHECK(all.count >= 90);
  CHECK(all.median_abs < 0.06);
  CHECK(all.p90_abs < 0.25);
}
