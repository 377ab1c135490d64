// The arguments of Megatron-LM's pretrain_*.py that say something about a step
// (megatron/training/arguments.py): how each is written, and the Megatron-Bridge key it becomes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "sim/config/import_shell.h"

namespace stepsim {

/// What follows a flag: nothing (and the value it then has), one value, or several.
enum class Takes { sets_true, sets_false, integer, number, text, integers, numbers, texts };

/// One flag.
struct ArgumentRow {
  std::string_view flag;
  Takes takes;
  std::string_view key;           ///< "section.name"; "" = import_megatron.cpp decides
  std::string_view choices = "";  ///< valid texts, separated by '|'; "" = any
};
std::span<const ArgumentRow> argument_rows();

/// Flags as written, typed: {"--num-layers": 32, "--bf16": true}; the last of several wins.
/// `not_modelled`: every other flag, once. A flag near a row's name, a value of the wrong kind and
/// a missing value are Errors at `#/--flag`.
nlohmann::json read_arguments(std::span<const ShellWord> words, const std::string& file,
                              nlohmann::json& not_modelled);
/// Puts the values of all rows with a key into their sections.
void write_arguments(const nlohmann::json& arguments, nlohmann::json& root);

}  // namespace stepsim
