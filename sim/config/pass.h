// Parts of a step, as labels, traces and given kernel times name them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace stepsim {

/// Which part of the step a task belongs to.
enum class Pass : uint8_t { forward, backward_data, backward_weight, recompute, backward, step };
inline constexpr std::array<std::string_view, 6> pass_names{
    "forward", "backward data", "backward weight", "recompute", "backward", "step"};
constexpr std::string_view name(Pass p) { return pass_names[static_cast<size_t>(p)]; }

}  // namespace stepsim
