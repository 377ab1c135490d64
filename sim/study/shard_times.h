// What surrounds the pipeline of a stage at the least: the optimizer, parameter gathers, gradient
// reductions and the norm (sim/lower/data_parallel.cpp), each at full speed.
#pragma once

#include <vector>

#include "sim/config/scenario.h"
#include "sim/network/fabric.h"
#include "sim/parallel/mesh.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// Of one stage, seconds.
struct ShardTimes {
  double update = 0;             ///< before the first forward: optimizer, zeroed gradients
  std::vector<double> gathered;  ///< by chunk: when its first parameters are there
  double finish = 0;             ///< after the last backward
  double host = 0;               ///< of the host, before it launches anything
};
ShardTimes shard_times(const Scenario& scenario, const std::vector<StageChunk>& split, int stage,
                       const Mesh& mesh, const Fabric& fabric);

}  // namespace stepsim
