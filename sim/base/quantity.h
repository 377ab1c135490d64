// Quantities as people write them: "450 GB/s", "400 Gb/s", "80 GiB", "989 TFLOP/s", "2 us".
// Law: a number without a unit is never guessed at. Prefixes: k M G T P are powers of 1000, Ki Mi
// Gi Ti of 1024 (IEC 80000-13); b is a bit, B a byte.
#pragma once

#include <string>
#include <string_view>

namespace stepsim {

enum class Dimension { time, bytes, bytes_per_second, flops_per_second, frequency };

/// A parsed quantity in SI units, or what is wrong with it (`problem` empty = good).
struct QuantityText {
  double value = 0;
  std::string problem;
};
QuantityText parse_quantity(std::string_view text, Dimension dimension);

/// "GB/s, GiB/s, ..." for messages.
std::string valid_units(Dimension dimension);

}  // namespace stepsim
