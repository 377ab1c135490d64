// Given times in place of kernels: schedules without a model.
#pragma once

#include <vector>

namespace stepsim {

/// Given times in place of kernels, by virtual stage (chunk * pp + rank where stages lie in a
/// ring). Empty vectors: not given.
struct GivenCosts {
  std::vector<double> forward_seconds, backward_seconds;
  std::vector<double> backward_input_seconds, backward_weight_seconds;  ///< halves of the backward
  std::vector<double> forward_backward_seconds;                         ///< of the overlapped block
  std::vector<double> p2p_seconds;  ///< from a virtual stage to the next one, and back
  double weight_memory = 1;         ///< share of the activations that the weight half still needs
};

}  // namespace stepsim
