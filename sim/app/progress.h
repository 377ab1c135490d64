// Long commands: how far they are, on a terminal only, and an interrupt that keeps what is done.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace stepsim::app {

inline constexpr int interrupted = 130;  ///< exit code after Ctrl-C, as shells report it

/// While one exists the first Ctrl-C asks to stop, the second ends the program.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  static bool asked();
};

/// "12/64 points, 3.1 a second, 17 s left", rewritten in place; silent unless standard error is a
/// terminal.
class ProgressLine {
 public:
  ProgressLine(std::string what, size_t count);
  ~ProgressLine() { clear(); }
  void advance() { show(done_ + 1); }
  void show(size_t done);
  /// Of something else from here on.
  void show(const std::string& what, size_t done, size_t of);
  void clear();

 private:
  std::string what_;
  size_t count_, done_ = 0;
  bool terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

/// Such a line told by a study; empty where nobody looks on.
std::function<void(size_t done, size_t all)> terminal_progress(const std::string& what);

}  // namespace stepsim::app
