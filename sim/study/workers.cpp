#include "sim/study/workers.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace stepsim {

size_t core_count() { return std::max(1u, std::thread::hardware_concurrency()); }

void for_each_piece(size_t count, size_t most, const std::function<void(size_t)>& work,
                    const Progress& progress, const std::function<bool()>& stop) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t done = 0, failed_at = count;
  std::exception_ptr failure;
  const auto run = [&] {
    for (size_t i; !(stop && stop()) && (i = next.fetch_add(1)) < count;) {
      std::exception_ptr problem;
      try {
        work(i);
      } catch (...) {
        problem = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      if (problem && i < failed_at) {
        failed_at = i;
        failure = problem;
      }
      ++done;
      if (progress) progress(done, count);
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < std::min(most, count); ++t) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

size_t worker_count(double tasks_of_each) {
  // A task of a running step is about 250 bytes: this keeps them below 8 GB together.
  constexpr double most_tasks_at_once = 30e6;
  const size_t cores = core_count();
  const double fit = most_tasks_at_once / std::max(tasks_of_each, 1.0);
  return fit >= static_cast<double>(cores) ? cores : static_cast<size_t>(std::max(fit, 1.0));
}

}  // namespace stepsim
