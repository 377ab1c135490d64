// The double nearest to the true value, by digits that were published, and near 1 to both sides.
#include "sim/base/exponential.h"

#include <doctest/doctest.h>

#include <cmath>

namespace stepsim {
namespace {

// Digits: OEIS A001113 (e), A068985 (1/e), A068996 (1 - 1/e), A002193 (the root of 2), A010467 (the
// root of 10).
TEST_CASE("published digits, rounded once") {
  CHECK(exact_exp(1) == 2.71828182845904523536028747135266249776);
  CHECK(exact_exp(-1) == 0.36787944117144232159552377016146086745);
  CHECK(exact_expm1(1) == 1.71828182845904523536028747135266249776);
  CHECK(exact_expm1(-1) == -0.63212055882855767840447622983853913255);
  CHECK(exact_pow(2, 0.5) == 1.41421356237309504880168872420969807857);
  CHECK(exact_pow(10, -0.5) == 0.316227766016837933199889354443271853372);
}

TEST_CASE("exact cases are exact") {
  CHECK(exact_exp(0) == 1);
  CHECK(exact_expm1(0) == 0);
  CHECK(exact_pow(1, -3.7) == 1);
  for (int i = 1; i <= 512; ++i) {
    CAPTURE(i);
    CHECK(exact_pow(i, -1) == 1.0 / i);
    CHECK(exact_pow(i, 2) == double(i) * i);
    CHECK(exact_pow(i, -0.5) == doctest::Approx(1 / std::sqrt(i)).epsilon(4e-16));
  }
}

// e^x - 1 = x + x^2 / 2 + ...: below 1e-9 the third term is under the last bit.
TEST_CASE("e^x - 1 keeps all digits near 0, and ends at -1") {
  for (const double x : {1e-12, -3e-11, 7e-10})
    CHECK(exact_expm1(x) == doctest::Approx(x + x * x / 2).epsilon(3e-16));
  CHECK(exact_expm1(-37) > -1);  // 1 - 2^-53 is a double, and e^-37 = 0.77 x 2^-53 is nearer to it
  CHECK(exact_expm1(-38) == -1);
  CHECK(exact_expm1(-1e9) == -1);
}

// The law of the libraries' own functions is one unit in the last place; ours is half of one.
TEST_CASE("within one unit in the last place of the C library's") {
  for (int i = -400; i <= 400; ++i) {
    const double x = 0.37 * i / 13;
    CAPTURE(x);
    CHECK(std::abs(exact_exp(x) - std::exp(x)) <= std::exp(x) * 0x1p-52);
    CHECK(std::abs(exact_expm1(x) - std::expm1(x)) <= std::abs(std::expm1(x)) * 0x1p-52);
  }
}

}  // namespace
}  // namespace stepsim
