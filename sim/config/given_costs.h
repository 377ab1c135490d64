// Given times in place of kernels: schedules without a model.
#pragma once

#include <optional>
#include <vector>

namespace stepsim {

/// Given times in place of kernels, by virtual stage (chunk * pp + rank where stages lie in a
/// ring). Empty vectors: not given.
struct GivenCosts {
  std::vector<double> forward_seconds, backward_seconds;
  std::vector<double> backward_input_seconds, backward_weight_seconds;  ///< halves of the backward
  std::vector<double> forward_backward_seconds;                         ///< of the overlapped block
  std::vector<double> p2p_seconds;  ///< from a virtual stage to the next one, and back
  /// Share of the activations that the weight half still needs; unset: the model's own.
  std::optional<double> weight_memory{};
};

}  // namespace stepsim
