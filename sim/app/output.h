// Where the program writes: a file that the user named, or standard output.
#pragma once

#include <fstream>
#include <ostream>
#include <string>
#include <string_view>

namespace stepsim::app {

/// A file, or standard output for "-"; "": none was asked for. Opened before anything is written
/// anywhere; throws Error when it cannot be opened or was not written completely.
class Output {
 public:
  explicit Output(const std::string& path);
  bool asked() const { return !path_.empty(); }
  bool standard() const { return path_ == "-"; }
  std::ostream& stream();
  void close();

 private:
  std::string path_;
  std::ofstream file_;
};

/// All of `text` to `path`.
void write_all(const std::string& path, std::string_view text);

/// Both paths lead to one file, whether or not it is there yet.
bool same_file(const std::string& a, const std::string& b);

}  // namespace stepsim::app
