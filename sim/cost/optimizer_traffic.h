// Bytes that an Adam step moves for each parameter that a rank owns (Megatron-Core optimizer/
// distrib_optimizer.py, clip_grads.py; Transformer Engine FusedAdam).
#pragma once

namespace stepsim {

/// One pass each.
struct OptimizerTraffic {
  double copy = 0;  ///< of 16-bit gradients to fp32 ones
  double norm = 0;  ///< reads the gradients
  double adam = 0;  ///< reads master weight, gradient and both moments, writes all but the gradient
};

/// `state_bytes`: master weight and moments together (DataParallel::optimizer_bytes; 12 in fp32).
/// `gradient_bytes`: of a reduced gradient, 2 or 4. The precision-aware optimizer works on the
/// gradients as they are reduced (decoupled_grad); the plain one on fp32 copies.
constexpr OptimizerTraffic optimizer_traffic(double state_bytes, double gradient_bytes,
                                             bool precision_aware) {
  constexpr double fp32 = 4;
  const double used = precision_aware ? gradient_bytes : fp32;
  return {.copy = used > gradient_bytes ? gradient_bytes + used : 0,
          .norm = used,
          .adam = 2 * state_bytes + used};
}

}  // namespace stepsim
