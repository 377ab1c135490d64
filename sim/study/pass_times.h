// How long the passes of one stage's chunks take at the least: longest paths through their
// templates, with every kernel and collective at full speed.
#pragma once

#include <vector>

#include "sim/lower/template.h"
#include "sim/network/fabric.h"
#include "sim/parallel/mesh.h"
#include "sim/parallel/schedule.h"
#include "sim/parallel/stages.h"

namespace stepsim {

/// Seconds between the last kernel before a template and its own last one; `launch_seconds`: of a
/// host's wait, below 0 when launches are not modelled.
double longest_path(const Template& t, double launch_seconds);
/// What launching it costs the host.
double host_seconds(const Template& t, double launch_seconds);

/// Of one stage, by chunk, seconds.
struct PassTimes {
  struct Pass {
    double device = 0, host = 0;
    Pass& operator+=(Pass other) {
      device += other.device;
      host += other.host;
      return *this;
    }
  };
  std::vector<Pass> forward, backward, backward_input, backward_weight;
  std::vector<std::vector<Pass>> pairs;  ///< forward chunk, backward chunk; empty: none are merged
  bool halves = false;                   ///< the schedule splits backwards

  double of(ActionKind kind, size_t chunk) const;
  double merged(size_t forward_chunk, size_t backward_chunk) const {
    return pairs[forward_chunk][backward_chunk].device;
  }
  /// All passes of so many microbatches, at their least; of the device and of the host.
  double total(double microbatches) const;
  double host_total(double microbatches) const;
};
/// By stage.
std::vector<PassTimes> pass_times(const Scenario& scenario, const std::vector<StageChunk>& split,
                                  const Mesh& mesh, const Fabric& fabric);

}  // namespace stepsim
