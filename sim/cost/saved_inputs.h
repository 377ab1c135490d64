// What modules save of their inputs for the backward, as far as offload_modules moves it.
#pragma once

#include "sim/config/scenario.h"

namespace stepsim {

/// Bytes that a layer of this shape sends to the host behind its forward, on one rank, for one
/// microbatch. 0 without offload_modules.
double saved_input_bytes(const Scenario& scenario, LayerShape shape, bool fp8);

}  // namespace stepsim
