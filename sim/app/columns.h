// Text in columns: nothing that the program prints for people is wider than a page.
#pragma once

#include <string>
#include <string_view>

namespace stepsim::app {

inline constexpr size_t page_width = 100;

/// The text, or as many whole words of it as fit into `most` columns and " ...".
std::string clipped(std::string_view text, size_t most);
/// `head`, then the words of `text` from column `indent` on, as lines of at most `page_width`
/// columns.
std::string wrapped(std::string_view head, std::string_view text, size_t indent);

}  // namespace stepsim::app
