// Integer arithmetic of the shell, $((...)): + - * / % **, signs, parentheses, names of variables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace stepsim {

/// The value of `expression`; nullopt when it is anything else than that arithmetic, divides by
/// zero, leaves 64 bits, or uses a name that `variable` does not know.
std::optional<int64_t> shell_arithmetic(
    std::string_view expression,
    const std::function<std::optional<int64_t>(std::string_view)>& variable);

}  // namespace stepsim
