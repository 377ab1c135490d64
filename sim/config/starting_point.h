// Where Megatron-Bridge's guide on parallelism strategy starts with a model, before anything is
// measured or simulated.
#pragma once

#include <optional>
#include <string>

#include "sim/config/model.h"

namespace stepsim {

/// Ranges of sizes; `ep` 0: not said.
struct StartingPoint {
  int tp_low = 1, tp_high = 1, pp_low = 1, pp_high = 1, cp = 1, ep = 0;
  std::string text;  ///< as the guide puts it
  std::string gpus;  ///< "64-256"; empty for a model that it names
};
/// Nothing for what its tables do not hold.
std::optional<StartingPoint> starting_point(const Model& model, int64_t sequence);

}  // namespace stepsim
