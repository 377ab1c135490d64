// Values of the section env_vars: environment variables are text, but may be written as numbers.
#pragma once

#include <optional>
#include <string>

#include "sim/config/reader.h"

namespace stepsim {

/// An environment variable's whole number; nothing when it is absent, null or empty. Throws Error.
std::optional<int> environment_count(const Reader& env_vars, const std::string& key, int low,
                                     int high);

}  // namespace stepsim
