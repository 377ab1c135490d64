#include "sim/report/page.h"

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
    const std::string rest = fmt::format("and {} more", items.size() - i);
    const bool room_for_rest = last || lines < max_lines;
    const size_t needed = line.size() + item.size() + (room_for_rest ? 0 : rest.size());
    // The first item is shown whatever its length: a clipped name says more than a count.
    if (needed > width_ && i > 0) {
      if (lines == max_lines) {
        line += rest;
        break;
      }
      add(line);
      line = indent;
      ++lines;
    }
    line += item;
  }
  add(line);
}

}  // namespace stepsim
