#include "sim/app/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>

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

ProgressLine::ProgressLine(std::string what, size_t count)
    : what_(std::move(what)),
      count_(count),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(ProgressClock::now()),
      last_(start_) {}

void ProgressLine::show(size_t done) {
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

void ProgressLine::show(const std::string& what, size_t done, size_t of) {
  if (what != what_ || done < done_) start_ = last_ = ProgressClock::now();
  what_ = what;
  count_ = of;
  show(done);
}

void ProgressLine::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

std::function<void(size_t, size_t)> terminal_progress(const std::string& what) {
  if (isatty(STDERR_FILENO) == 0) return {};
  const auto line = std::make_shared<ProgressLine>(what, 0);
  return [line, what](size_t done, size_t all) {
    if (done < all) return line->show(what, done, all);
    line->clear();
  };
}

}  // namespace stepsim::app
