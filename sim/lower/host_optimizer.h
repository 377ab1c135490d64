// The host's part of an optimizer step (Megatron-Core
// optimizer/cpu_offloading/hybrid_optimizer.py): gradients leave, the host updates its master
// weights and moments, new weights return. With overlap every parameter is an optimizer of its own,
// so that one is copied while another is updated.
#pragma once

#include <vector>

#include "sim/lower/step_writer.h"

namespace stepsim {

/// Host memory traffic of updating one parameter in fp32: gradient, master weight and both moments
/// are read, all but the gradient written.
inline constexpr double host_adam_bytes = 28;

/// One device's update of some parameters on its host.
class HostUpdate {
 public:
  /// `elements`: that the host updates; with none nothing is written.
  HostUpdate(const Scenario& scenario, StepWriter& writer, uint32_t device, double elements,
             Label label);
  /// Issued before the device's own update, which runs beside the host's.
  void send_gradients();
  /// The next kernel waits for the weights.
  void update();

 private:
  void copy(Stream stream, OpKind op);

  const Scenario& s_;
  StepWriter& w_;
  uint32_t device_;
  double elements_;
  Label label_;
  int pieces_;
  std::vector<TaskId> sent_;
};

}  // namespace stepsim
