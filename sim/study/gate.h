// Limits that a change must keep: what a check on every commit asks of a Diff.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/study/diff.h"

namespace stepsim {

/// Nothing is asked for unless set, but that B fits in memory.
struct Gate {
  std::optional<double> most_relative;  ///< of A's step
  std::optional<double> most_seconds;
  bool silent = false;   ///< no setting may newly be changed silently
  bool refused = false;  ///< what Megatron refuses in B fails the gate instead of being bad input
};

/// "2%", or a time such as "50 ms". Anything else is an Error at `pointer` of the command line.
void read_fail_above(Gate& gate, const std::string& text, const std::string& pointer);
/// One of silent, error, does-not-fit.
void read_fail_on(Gate& gate, const std::string& word, const std::string& pointer);

/// Why the gate is missed, one phrase a limit; empty: it is kept.
std::vector<std::string> misses(const Diff& diff, const Gate& gate);

}  // namespace stepsim
