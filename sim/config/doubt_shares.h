// Numbers by kind of doubt (sim/config/doubts.h).
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace stepsim {

inline constexpr size_t doubt_count = 12;
using ByDoubt = std::array<double, doubt_count>;
/// Relative standard deviations; absent: not known.
using Doubts = std::optional<ByDoubt>;

}  // namespace stepsim
