// YAML text becomes the same document that scenario JSON gives: a Megatron-Bridge run_config.yaml
// (src/megatron/bridge/training/utils/checkpoint_utils.py writes it) or a recipe-style file.
// Law: whatever is wrong with the text is one stepsim::Error; aliases multiply nothing beyond what
// the text's size justifies.
#pragma once

#include <string>

#include "sim/config/document.h"

namespace stepsim {

/// Refuses syntax errors (by line:column), duplicate keys, nesting beyond `max_nesting`, aliases
/// that expand to many times the text, a second document, anything but a mapping, NaN and infinity,
/// tags other than YAML's own, invalid UTF-8, text beyond `max_file_bytes`. Bridge's notation for
/// types, enums and functions is read as plain values (import_bridge.h).
Document parse_yaml(const std::string& text, const std::string& file);

}  // namespace stepsim
