// Plain YAML scalars as PyYAML reads them (YAML 1.1, yaml/resolver.py of PyYAML), since PyYAML
// writes and reads Megatron-Bridge's files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace stepsim {

/// What an unquoted scalar stands for: null, boolean, number, else the text itself. An exponent
/// needs no dot here ("1e-5", a string for PyYAML); base 60 and dates stay text. nullopt: a number
/// no double holds, infinity or NaN.
std::optional<nlohmann::json> plain_scalar(const std::string& text);
/// A decimal number and nothing else; nullopt when it is none or no double holds it.
std::optional<nlohmann::json> decimal_number(const std::string& text);

}  // namespace stepsim
