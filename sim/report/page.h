// Text of a fixed width: lines that are clipped, paragraphs that wrap. Knows nothing of reports.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

/// Columns of every report, and what sizes are printed in.
inline constexpr size_t page_width = 100;
inline constexpr double gib = 1024.0 * 1024 * 1024;

/// Collects lines of printable ASCII, none wider than `width` columns.
class Page {
 public:
  explicit Page(size_t width) : width_(width) {}

  /// One line; what does not fit ends in "...".
  template <class... T>
  void line(fmt::format_string<T...> text, T&&... args) {
    add(fmt::format(text, std::forward<T>(args)...));
  }
  void blank() { text_ += '\n'; }
  /// `head`, then the items separated by ", ", on at most `max_lines` lines; the rest is counted
  /// ("and 3 more").
  void list(std::string_view head, const std::vector<std::string>& items, size_t max_lines);
  /// `head`, then `text` broken between words on at most `max_lines` lines; the last is clipped.
  void paragraph(std::string_view head, std::string_view text, size_t max_lines);
  const std::string& text() const { return text_; }

 private:
  void add(std::string line);

  size_t width_;
  std::string text_;
};

}  // namespace stepsim
