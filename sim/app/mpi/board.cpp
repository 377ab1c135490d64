#include "sim/app/mpi/board.h"

#include <algorithm>

namespace stepsim::app {

void Board::fill(const Errands& errands) {
  const std::lock_guard lock(mutex_);
  errands_ = &errands;
  ++filling_;
  next_ = answers_ = 0;
  open_ = errands.count;
  longest_seconds_ = 0;
  answered_.assign(errands.count, 0);
  out_.clear();
}

void Board::clear() {
  const std::lock_guard lock(mutex_);
  errands_ = nullptr;
}

bool Board::finished() {
  const std::lock_guard lock(mutex_);
  return errands_ == nullptr || open_ == 0 || (errands_->stop && errands_->stop());
}

double Board::seconds_until_late() const {
  // Errands of one filling differ by their graphs, and threads by what else their cores do.
  return answers_ == 0 ? 10 : 1 + 4 * longest_seconds_;
}

std::optional<Taken> Board::take() {
  const std::lock_guard lock(mutex_);
  if (errands_ == nullptr || open_ == 0 || (errands_->stop && errands_->stop())) return {};
  const Clock::time_point now = Clock::now();
  Out out{.number = next_, .since = now};
  if (next_ < errands_->count) {
    ++next_;
  } else {
    const Out& oldest = out_.front();
    if (std::chrono::duration<double>(now - oldest.since).count() < seconds_until_late()) return {};
    out.number = oldest.number;
    out_.pop_front();
    ++again_;
  }
  out_.push_back(out);
  return Taken{.filling = filling_, .number = out.number, .errand = errands_->errand(out.number)};
}

void Board::answer(uint64_t filling, uint64_t number, const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  if (errands_ == nullptr || filling != filling_ || number >= answered_.size()) return;
  if (answered_[number] != 0) return;
  answered_[number] = 1;
  const auto found =
      std::find_if(out_.begin(), out_.end(), [&](const Out& o) { return o.number == number; });
  const double seconds = std::chrono::duration<double>(Clock::now() - found->since).count();
  longest_seconds_ = std::max(longest_seconds_, seconds);
  out_.erase(found);
  ++answers_;
  --open_;
  errands_->answered(number, bytes);
}

bool Board::are_short() {
  const std::lock_guard lock(mutex_);
  return answers_ > 0 && longest_seconds_ < 0.1;
}

size_t Board::given_again() {
  const std::lock_guard lock(mutex_);
  return again_;
}

}  // namespace stepsim::app
