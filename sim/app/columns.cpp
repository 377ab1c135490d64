#include "sim/app/columns.h"

#include <algorithm>

namespace stepsim::app {

std::string clipped(std::string_view text, size_t most) {
  constexpr std::string_view mark = " ...";
  if (text.size() <= most) return std::string(text);
  if (most <= mark.size()) return std::string(text.substr(0, most));
  const size_t room = most - mark.size();
  const size_t space = text.rfind(' ', room);
  size_t end = space == text.npos || space == 0 ? room : space;
  while (end > 0 && std::string_view(" ,;:(").find(text[end - 1]) != std::string_view::npos) --end;
  return std::string(text.substr(0, end)) + std::string(mark);
}

std::string wrapped(std::string_view head, std::string_view text, size_t indent) {
  std::string page, line(head);
  if (line.size() < indent) line.resize(indent, ' ');
  bool fresh = true;  // no word on this line yet
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(' ', start), text.size());
    const std::string_view word = text.substr(start, end - start);
    start = end + 1;
    if (word.empty()) continue;
    if (!fresh && line.size() + 1 + word.size() > page_width) {
      page += line + "\n";
      line.assign(indent, ' ');
      fresh = true;
    }
    if (!fresh) line += ' ';
    line += word;
    fresh = false;
  }
  return page + line + "\n";
}

}  // namespace stepsim::app
