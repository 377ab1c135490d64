// Names and the nearest valid one: every table of variants feeds `list`, errors and tests.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

/// Optimal string alignment distance (insert, delete, substitute, swap of neighbours), as in
/// ninja's edit_distance.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `name`, or "" when none is near enough to be what was meant.
std::string_view nearest(std::string_view name, std::span<const std::string> candidates);

/// `; did you mean 'x'?` or, when nothing is near, `; valid: a, b, c` (at most 12 names).
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

}  // namespace stepsim
