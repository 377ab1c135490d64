// What a person at a terminal sees while a study runs: standard error, and only if it is one.
#pragma once

#include <functional>
#include <string>

namespace stepsim::app {

/// Counts done steps on one line, which the last one clears; empty where nobody looks on.
std::function<void(size_t, size_t)> terminal_progress(const std::string& what);

}  // namespace stepsim::app
