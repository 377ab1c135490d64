#include "sim/report/page.h"

#include <algorithm>

namespace stepsim {

void Page::add(std::string line) {
  // Names come from users' files: nothing that a terminal would act on gets through.
  for (char& c : line)
    if (c < ' ' || c > '~') c = '?';
  if (line.size() > width_) line = line.substr(0, width_ - 3) + "...";
  while (!line.empty() && line.back() == ' ') line.pop_back();
  text_ += line + '\n';
}

void Page::list(std::string_view head, const std::vector<std::string>& items, size_t max_lines) {
  const std::string indent(head.size(), ' ');
  std::string line(head);
  size_t lines = 1;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool last = i + 1 == items.size();
    const std::string item = items[i] + (last ? "" : ", ");
    // The last line keeps room to count what does not fit on it.
    const auto fits = [&] {
      const size_t room =
          last || lines < max_lines ? 0 : fmt::formatted_size("and {} more", items.size() - i - 1);
      return line.size() + item.size() + room <= width_;
    };
    // The first item is shown whatever its length: a clipped name says more than a count.
    if (i > 0 && !fits() && lines < max_lines) {
      add(line);
      line = indent;
      ++lines;
    }
    if (i > 0 && !fits() && lines == max_lines) {
      line += fmt::format("and {} more", items.size() - i);
      break;
    }
    line += item;
  }
  add(line);
}

void Page::paragraph(std::string_view head, std::string_view text, size_t max_lines) {
  std::string line(head);
  for (size_t lines = 1; lines < max_lines && line.size() + text.size() > width_; ++lines) {
    const size_t room = width_ - std::min(width_, line.size());
    const size_t space = text.rfind(' ', room);
    if (space == std::string_view::npos || space == 0) break;  // one long word: clipped below
    add(line + std::string(text.substr(0, space)));
    text.remove_prefix(space + 1);
    line.assign(head.size(), ' ');
  }
  add(line + std::string(text));
}

}  // namespace stepsim
