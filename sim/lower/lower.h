// Lowering: a Scenario, its mesh and its schedule become one step as a task graph.
#pragma once

#include <span>

#include "sim/config/scenario.h"
#include "sim/lower/lowered.h"
#include "sim/network/fabric.h"
#include "sim/parallel/folding.h"
#include "sim/parallel/mesh.h"

namespace stepsim {

/// Everything between two global gradient-norm reductions; with given costs, one flush of the
/// pipeline. `begins_seconds`: when each device begins, where no barrier holds them together.
LoweredStep lower(const Scenario& scenario, const Mesh& mesh, const Folding& folding,
                  const Fabric& fabric, std::span<const double> begins_seconds = {});

}  // namespace stepsim
