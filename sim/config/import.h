// Any file that describes a training step becomes one document: scenario JSON, a Megatron-Bridge
// YAML, a Megatron-LM script or argument file.
#pragma once

#include <filesystem>
#include <string>

#include "sim/config/document.h"

namespace stepsim {

/// By the ending of `file` (.json; .yaml, .yml; .sh, .bash, .args); without a known one, by what
/// the text looks like.
Document parse_any(const std::string& text, const std::string& file);
Document load_any(const std::filesystem::path& path);

}  // namespace stepsim
