#include "sim/app/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace stepsim::app {

std::function<void(size_t, size_t)> terminal_progress(const std::string& what) {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [what](size_t done, size_t all) {
    const std::string text = done < all ? fmt::format("\r{} {} of {} ", what, done, all)
                                        : fmt::format("\r{:{}}\r", "", what.size() + 16);
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  };
}

}  // namespace stepsim::app
