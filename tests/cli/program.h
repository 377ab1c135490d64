// Runs the program from the repository root, as a user would.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

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

struct Outcome {
  int code = 0;  ///< -1: killed
  std::string out, err;
  std::string both() const { return out + err; }
};

/// Of the program with these words. Files are this process's: tests run side by side.
inline Outcome outcome_of(const std::string& words) {
  const std::string base = "/tmp/stepsim-cli-" + std::to_string(getpid());
  const std::string out = base + ".out", err = base + ".err";
  const int status = std::system((program() + " >" + out + " 2>" + err + " " + words).c_str());
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(out), read_text(err)};
  std::remove(out.c_str());
  std::remove(err.c_str());
  return outcome;
}

inline int exit_code(const std::string& words) { return outcome_of(words).code; }

inline void check_fits_100_columns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 100);
  }
}

}  // namespace stepsim::test
