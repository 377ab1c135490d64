// Sizes that families of models spell differently: n_layer, n_layers, num_hidden_layers.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "sim/config/reader.h"

namespace stepsim {

using Spellings = std::initializer_list<const char*>;

/// The first spelling that the file has; the first of all names what is missing.
inline std::string spelling(const Reader& config, Spellings names) {
  for (const char* name : names)
    if (config.has(name)) return name;
  return *names.begin();
}

inline int64_t required_size(const Reader& config, Spellings names, Range range) {
  return config.required_int(spelling(config, names), range);
}

inline std::optional<int64_t> optional_size(const Reader& config, Spellings names, Range range) {
  return config.optional_int(spelling(config, names), range);
}

}  // namespace stepsim
