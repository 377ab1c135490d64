// What pictures written as SVG have in common.
#pragma once

#include <string>
#include <string_view>

namespace stepsim {

/// `text` as the content of an element or of an attribute in quotes: no markup, no control
/// characters.
std::string svg_text(std::string_view text);

}  // namespace stepsim
