// Where results go: a file or standard output, and never half of one in silence.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

#include "sim/base/error.h"

namespace stepsim::app {

/// A file that the user named, or standard output for "-". Opened before anything is written
/// anywhere.
class Output {
 public:
  explicit Output(const std::string& path) : path_(path) {
    if (path.empty() || standard()) return;
    file_.open(path, std::ios::binary);
    if (!file_) throw Error(path, "", fmt::format("cannot be written: {}", std::strerror(errno)));
  }
  bool asked() const { return !path_.empty(); }
  bool standard() const { return path_ == "-"; }
  std::ostream& stream() { return standard() ? std::cout : file_; }
  void close() {
    stream().flush();
    if (!stream())
      throw Error(standard() ? "<standard output>" : path_, "", "could not be written completely");
  }

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace stepsim::app
