// The shipped parameters are what the fit gives.
#include "sim/study/calibrate.h"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/error.h"
#include "sim/config/files.h"

using namespace stepsim;

// Law: fitted again from the shipped file to the shipped rows, no parameter moves by more than a
// fifth of its standard error and one of its last digits.
TEST_CASE("calibration reproduces the shipped parameters") {
  const Calibration fit = calibrate("tests/published/kernels.csv", "h800", "", find_data());
  CHECK(fit.blocks.size() == 2);
  for (const FittedBlock& block : fit.blocks) {
    CHECK(block.median_after <= 0.06);
    for (const FittedParameter& p : block.parameters) {
      CAPTURE(p.pointer);
      CHECK(p.standard_error > 0);
      CHECK(std::abs(p.after - p.before) <= 0.2 * p.standard_error + 0.002 * p.before);
    }
  }
}

TEST_CASE("a source is also predicted from the others") {
  const Calibration fit =
      calibrate("tests/published/kernels.csv", "h100", "/gemm/bf16", find_data());
  REQUIRE(fit.blocks.size() == 1);
  bool held_out = false;
  for (const SourceResiduals& s : fit.blocks[0].sources) held_out |= s.without >= 0;
  CHECK(held_out);
  CHECK(calibration_text(fit).find("held out") != std::string::npos);
}

TEST_CASE("nothing to fit is an error") {
  CHECK_THROWS_AS(calibrate("tests/published/kernels.csv", "h800", "/no/such", find_data()), Error);
}
