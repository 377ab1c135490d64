// Runs the program from the repository root, as a user would.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace stepsim::test {

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Its path: this build's, or the one that the environment names.
inline std::string program() {
  const char* named = std::getenv("STEPSIM_PROGRAM");
  return named != nullptr ? named : STEPSIM_PROGRAM;
}

inline bool tells(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// Standard output of the program with these words; it must exit with 0.
inline std::string output(const std::string& words) {
  const std::string command = program() + " " + words;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), n);
  CHECK(pclose(pipe) == 0);
  return text;
}

}  // namespace stepsim::test
