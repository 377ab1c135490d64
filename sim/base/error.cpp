#include "sim/base/error.h"

#include <utility>

namespace stepsim {

Error::Error(std::string file, std::string pointer, std::string message)
    : file_(std::move(file)), pointer_(std::move(pointer)), message_(std::move(message)) {
  const bool is_pointer = pointer_.empty() || pointer_.front() == '/';
  what_ = file_ + (is_pointer ? "#" : ":") + pointer_ + ": " + message_;
}

}  // namespace stepsim
