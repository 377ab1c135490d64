// The part of the optimizer that is the host's (Megatron-Core optimizer/cpu_offloading/
// hybrid_optimizer.py).
#pragma once

namespace stepsim {

/// optimizer_cpu_offload: the moments of a share of the parameters live in host memory, and the
/// host updates those.
struct HostOptimizer {
  double fraction = 0;      ///< optimizer_offload_fraction; 0: nothing is offloaded
  bool overlap = false;     ///< overlap_cpu_optimizer_d2h_h2d: a parameter at a time
  double moment_bytes = 8;  ///< of both moments of one parameter
  bool any() const { return fraction > 0; }
};

}  // namespace stepsim
