// Exponentials that are the same bits on every platform. C libraries round them differently in one
// argument of a thousand (glibc and musl, x 0 to 0.5: 124 of 200,000), and reports print all
// digits. Law: made of additions, multiplications and divisions alone, carried with twice the
// digits of a double (Dekker 1971, A floating-point technique for extending the available
// precision; Hida, Li and Bailey 2001, Algorithms for quad-double precision floating point
// arithmetic) and rounded once: the double nearest to the true value, but for arguments within 1e-9
// of a half-way case.
#pragma once

namespace stepsim {

/// e^x; |x| up to 700.
double exact_exp(double x);
/// e^x - 1, as precise near 0; x up to 700.
double exact_expm1(double x);
/// base^exponent of a base of at least 1, up to e^700; what is below e^-700 is 0.
double exact_pow(double base, double exponent);

}  // namespace stepsim
