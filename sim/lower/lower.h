// Lowering: a Scenario, its mesh and its schedule become one step as a task graph.
#pragma once

#include "sim/config/scenario.h"
#include "sim/lower/lowered.h"
#include "sim/network/fabric.h"
#include "sim/parallel/folding.h"
#include "sim/parallel/mesh.h"

namespace stepsim {

/// Everything between two global gradient-norm reductions; with given costs, one flush of the
/// pipeline.
LoweredStep lower(const Scenario& scenario, const Mesh& mesh, const Folding& folding,
                  const Fabric& fabric);

}  // namespace stepsim
