// What a measured row does not say and Megatron needs: the nearest that it would have accepted.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/config/scenario.h"

namespace stepsim {

/// Changes `scenario` so that what `resolved` was refused for holds, names the modules of adapters
/// where it does not, and says which dotted keys were assumed; empty where nothing can be.
std::vector<std::string> assume(nlohmann::json& scenario, const Scenario& resolved);

/// A layout of `stages` virtual stages: embedding, loss and prediction modules count as a layer
/// each, and no stage holds two more than another. "" when there are fewer of them than stages.
std::string even_layout(int layers, int prediction_modules, int stages);

}  // namespace stepsim
