#include "sim/app/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "sim/base/error.h"

namespace stepsim::app {

Output::Output(const std::string& path) : path_(path) {
  if (path.empty() || standard()) return;
  file_.open(path, std::ios::binary);
  if (!file_) throw Error(path, "", fmt::format("cannot be written: {}", std::strerror(errno)));
}

std::ostream& Output::stream() {
  if (standard()) return std::cout;
  return file_;
}

void Output::close() {
  stream().flush();
  if (!stream())
    throw Error(standard() ? "<standard output>" : path_, "", "could not be written completely");
}

void write_all(const std::string& path, std::string_view text) {
  Output output(path);
  output.stream() << text;
  output.close();
}

bool same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  if (a == b) return true;
  if (a == "-" || b == "-") return false;
  std::error_code code;
  if (fs::equivalent(a, b, code)) return true;
  // What is not there yet has a name only.
  const auto place = [&](const std::string& path) {
    fs::path whole = fs::absolute(path, code);
    // A link may lead to where nothing is yet.
    for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(whole, code)); ++links)
      whole = whole.parent_path() / fs::read_symlink(whole, code);
    const fs::path real = fs::weakly_canonical(whole, code);
    return code ? whole.lexically_normal() : real;
  };
  return place(a) == place(b);
}

}  // namespace stepsim::app
