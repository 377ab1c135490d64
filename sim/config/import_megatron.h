// A Megatron-LM launch script or argument file becomes the same document that scenario JSON gives.
// Sections and keys are Megatron-Bridge's; where Megatron-LM's defaults
// (megatron/training/arguments.py) differ from Bridge's they are written out, so the document means
// the same step that pretrain_gpt.py would run.
#pragma once

#include <string>

#include "sim/config/document.h"

namespace stepsim {

inline constexpr size_t max_script_bytes = size_t{1} << 20;

/// `file` ending in ".args": words without shell operators; anything else is read as a shell script
/// (import_shell.h). The arguments are those of the last line that runs pretrain_*.py, else all
/// words. Beside Bridge's sections the root holds `_dialect` "megatron-lm", `_not_modelled` (flags
/// as an array), and `_launch` {gpus_per_node, nodes, gpus} as far as the script says.
/// Errors point at `#/--flag`, those of the shell's syntax at line:column.
Document parse_megatron(const std::string& text, const std::string& file);

/// Whether text that has no known ending looks like one: a line that begins with a flag, or one
/// that runs pretrain_*.py.
bool looks_like_megatron(const std::string& text);

}  // namespace stepsim
