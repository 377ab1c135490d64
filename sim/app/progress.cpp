#include "sim/app/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace stepsim::app {

namespace {

volatile std::sig_atomic_t stop_asked = 0;

void ask_to_stop(int) {
  stop_asked = 1;
  std::signal(SIGINT, SIG_DFL);
}

using ProgressClock = std::chrono::steady_clock;

}  // namespace

Interrupt::Interrupt() {
  stop_asked = 0;
  std::signal(SIGINT, ask_to_stop);
}
Interrupt::~Interrupt() { std::signal(SIGINT, SIG_DFL); }
bool Interrupt::asked() { return stop_asked != 0; }

Progress::Progress(std::string what, size_t count)
    : what_(std::move(what)),
      count_(count),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(ProgressClock::now()),
      last_(start_) {}

void Progress::show(size_t done) {
  done_ = done;
  if (!terminal_) return;
  const auto now = ProgressClock::now();
  const double since = std::chrono::duration<double>(now - start_).count();
  if (drawn_ && std::chrono::duration<double>(now - last_).count() < 0.2) return;
  last_ = now;
  drawn_ = true;
  const double rate = since > 0 ? static_cast<double>(done) / since : 0;
  std::string line = fmt::format("{}/{} {}, {:.1f} a second", done, count_, what_, rate);
  if (rate > 0) line += fmt::format(", {:.0f} s left", static_cast<double>(count_ - done) / rate);
  std::fputs(fmt::format("\r\033[K{}", line).c_str(), stderr);
  std::fflush(stderr);
}

void Progress::show(const std::string& what, size_t done, size_t of) {
  if (what != what_ || done < done_) start_ = last_ = ProgressClock::now();
  what_ = what;
  count_ = of;
  show(done);
}

void Progress::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace stepsim::app
