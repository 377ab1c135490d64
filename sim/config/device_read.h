// Reading a GPU file.
#pragma once

#include <string>

#include "sim/config/device.h"
#include "sim/config/reader.h"

namespace stepsim {

Device read_device(const Reader& config);
/// Type called `name` in data files; null when there is none.
const Dtype* dtype_named(const std::string& name);

inline constexpr double smallest_share = 0.01;  ///< a share below this is a slip of the pen
/// A share from that to 1.
double fraction(const Reader& from, const std::string& key, double fallback);
/// Marks the keys that every section of a hardware file may have; refuses what nobody read.
void annotations(const Reader& config);

}  // namespace stepsim
