// Words of the command line before CLI11 sees them, and what it could not read.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "sim/base/error.h"

namespace stepsim::app {

/// Bridge's short flags become overrides for commands that take a scenario: `-tp 4`, `-tp=4` ->
/// model.tensor_model_parallel_size=4 (scripts/training/run_recipe.py).
std::vector<std::string> with_short_flags(int argc, char** argv);

/// What CLI11 could not read, as one of our errors: which word, and the nearest that is known.
Error word_error(const CLI::App& app, const CLI::ParseError& problem,
                 const std::vector<std::string>& words);

}  // namespace stepsim::app
