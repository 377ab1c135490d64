#include "sim/base/exponential.h"

#include <cassert>
#include <cmath>

namespace stepsim {
namespace {

/// high + low, where high is the double nearest to the sum.
struct Double2 {
  double high = 0, low = 0;
};

/// Knuth's sum of two doubles with its rounding error.
Double2 sum2(double a, double b) {
  const double s = a + b, part = s - a;
  return {s, (a - (s - part)) + (b - part)};
}
/// The same where |a| >= |b| (Dekker).
Double2 ordered_sum2(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}
/// Veltkamp's halves of 26 bits.
Double2 halves(double a) {
  const double big = 134217729.0 * a;  // 2^27 + 1
  const double high = big - (big - a);
  return {high, a - high};
}
/// Dekker's product with its rounding error.
Double2 product2(double a, double b) {
  const double p = a * b;
  const Double2 x = halves(a), y = halves(b);
  return {p, ((x.high * y.high - p) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

Double2 operator+(Double2 a, Double2 b) {
  const Double2 high = sum2(a.high, b.high), low = sum2(a.low, b.low);
  const Double2 once = ordered_sum2(high.high, high.low + low.high);
  return ordered_sum2(once.high, once.low + low.low);
}
Double2 operator-(Double2 a) { return {-a.high, -a.low}; }
Double2 operator*(Double2 a, Double2 b) {
  const Double2 p = product2(a.high, b.high);
  return ordered_sum2(p.high, p.low + (a.high * b.low + a.low * b.high));
}
Double2 operator/(Double2 a, Double2 b) {
  const double first = a.high / b.high;
  const Double2 left = a + -(b * Double2{first, 0});
  const double second = left.high / b.high;
  const Double2 rest = left + -(b * Double2{second, 0});
  return ordered_sum2(first, second) + Double2{rest.high / b.high, 0};
}

/// e^x - 1: Taylor's series of x / 2^n, then e^2y - 1 = (e^y - 1) (e^y - 1 + 2) n times.
Double2 expm1_of(Double2 x) {
  int doublings = 0;
  for (double size = std::abs(x.high); size > 1.0 / 256; size /= 2) ++doublings;
  const double scale = std::ldexp(1.0, -doublings);  // a power of two: exact
  const Double2 y{x.high * scale, x.low * scale};
  // Thirteen terms: the next is below 256^-13 / 14! = 2^-140 of the first.
  Double2 sum{1, 0};
  for (int term = 13; term >= 2; --term)
    sum = Double2{1, 0} + y * sum / Double2{static_cast<double>(term), 0};
  Double2 e = y * sum;
  for (int i = 0; i < doublings; ++i) e = e * (e + Double2{2, 0});
  return e;
}
/// Backwards through 1 / e^-x where e^x - 1 would lose digits.
Double2 exp_of(Double2 x) {
  if (x.high < 0) return Double2{1, 0} / exp_of(-x);
  return expm1_of(x) + Double2{1, 0};
}
/// One step of Newton on e^y = x from the library's logarithm: its last bits do not matter.
Double2 log_of(double x) {
  const Double2 y{std::log(x), 0};
  return y + (Double2{x, 0} * exp_of(-y) + Double2{-1, 0});
}

}  // namespace

double exact_exp(double x) {
  assert(std::abs(x) <= 700);
  return exp_of({x, 0}).high;
}

double exact_expm1(double x) {
  assert(x <= 700);
  if (x < -40) return -1;  // e^-40 is less than half of what a double resolves beside 1
  return x == 0 ? 0 : expm1_of({x, 0}).high;
}

double exact_pow(double base, double exponent) {
  assert(base >= 1);
  const Double2 power = log_of(base) * Double2{exponent, 0};
  assert(power.high <= 700);
  return power.high < -700 ? 0 : exp_of(power).high;
}

}  // namespace stepsim
