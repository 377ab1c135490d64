// Python's list arithmetic as Megatron-LM's --moe-layer-freq uses it: "([0]*3+[1]*58)".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace stepsim {

/// An integer, or the list of integers that the expression stands for (at most 8192, the most
/// layers a model may have); nullopt for anything else.
std::optional<nlohmann::json> layer_pattern(std::string_view text);

}  // namespace stepsim
