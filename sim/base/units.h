// Units are types: a quantity is a double that knows what it counts.
// Law: only same-unit quantities add; products and quotients that have a meaning are spelt out
// below.
#pragma once

#include <compare>

namespace stepsim {

/// A value in one SI unit. Raw doubles appear only inside the engine's loops, named `..._seconds`.
template <class Unit>
struct Quantity {
  double value = 0;

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity o) {
    value += o.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    value -= o.value;
    return *this;
  }
  constexpr Quantity& operator*=(double f) {
    value *= f;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(Quantity a, double f) { return {a.value * f}; }
  friend constexpr Quantity operator*(double f, Quantity a) { return {a.value * f}; }
  friend constexpr Quantity operator/(Quantity a, double f) { return {a.value / f}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
};

using Seconds = Quantity<struct SecondsUnit>;
using Bytes = Quantity<struct BytesUnit>;
using Flops =
    Quantity<struct FlopsUnit>;  ///< floating-point operations, a fused multiply-add counts two
using BytesPerSecond = Quantity<struct BytesPerSecondUnit>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondUnit>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return {b.value / r.value}; }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return {f.value / r.value}; }
constexpr Bytes operator*(BytesPerSecond r, Seconds t) { return {r.value * t.value}; }
constexpr FlopsPerSecond operator/(Flops f, Seconds t) { return {f.value / t.value}; }
constexpr BytesPerSecond operator/(Bytes b, Seconds t) { return {b.value / t.value}; }

constexpr Seconds operator""_us(long double v) { return {static_cast<double>(v) * 1e-6}; }
constexpr Seconds operator""_ms(long double v) { return {static_cast<double>(v) * 1e-3}; }
constexpr Seconds operator""_s(long double v) { return {static_cast<double>(v)}; }
constexpr BytesPerSecond operator""_GBps(long double v) { return {static_cast<double>(v) * 1e9}; }
constexpr FlopsPerSecond operator""_TFLOPs(long double v) {
  return {static_cast<double>(v) * 1e12};
}

}  // namespace stepsim
