// What is to be done, what is being done, and what is late.
//
// Whoever is free takes the next errand. When all are out, one that is out for longer than errands
// take is given out again: the first answer counts, and any would be the same. So nobody has to
// know that a process died: others do what it held, and it gets nothing more.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sim/study/errands.h"

namespace stepsim::app {

/// An errand that was given out. Any process answers it with the two numbers.
struct Taken {
  uint64_t filling = 0, number = 0;
  std::string errand;
};

/// The errands of one call of the crew, a filling. Any thread may call anything.
class Board {
 public:
  /// `errands` must live until it is cleared.
  void fill(const Errands& errands);
  void clear();
  /// All is answered, or it was told to stop.
  bool finished();
  /// Nothing: all are out and none is late.
  std::optional<Taken> take();
  /// Answers to an earlier filling and second answers are dropped.
  void answer(uint64_t filling, uint64_t number, const std::string& bytes);
  /// Answers come so fast that a process needs a store of errands to be busy.
  bool are_short();
  size_t given_again();

 private:
  using Clock = std::chrono::steady_clock;
  struct Out {
    size_t number = 0;
    Clock::time_point since;
  };
  double seconds_until_late() const;

  std::mutex mutex_;
  const Errands* errands_ = nullptr;
  uint64_t filling_ = 0;
  size_t next_ = 0, open_ = 0, again_ = 0, answers_ = 0;
  double longest_seconds_ = 0;
  std::vector<char> answered_;
  std::list<Out> out_;  ///< by `since`
};

}  // namespace stepsim::app
