#include "sim/base/error.h"

#include <utility>

namespace stepsim {

namespace {
/// Inputs are quoted in messages: nothing that a terminal would act on, and no page of it.
std::string one_line(std::string message) {
  constexpr size_t longest = 900;
  for (char& c : message)
    if (c < ' ' || c > '~') c = '?';
  if (message.size() > longest) message = message.substr(0, longest - 3) + "...";
  return message;
}
}  // namespace

Error::Error(std::string file, std::string pointer, std::string message)
    : file_(std::move(file)), pointer_(std::move(pointer)), message_(one_line(std::move(message))) {
  const bool is_pointer = pointer_.empty() || pointer_.front() == '/';
  what_ = file_ + (is_pointer ? "#" : ":") + pointer_ + ": " + message_;
}

}  // namespace stepsim
