// Bytes moved per element of a 16-bit tensor by each elementwise pass (reads and writes).
#pragma once

namespace stepsim {

inline constexpr double norm_forward_bytes = 4;   ///< read x, write y
inline constexpr double norm_backward_bytes = 6;  ///< read x and dy, write dx
inline constexpr double residual_bytes = 6;       ///< read two, write one
inline constexpr double dropout_mask_bytes = 1;

}  // namespace stepsim
