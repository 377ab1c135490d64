#include "sim/study/cores.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace stepsim {

void on_all_cores(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  for (size_t c = 1; c < std::min(cores, count); ++c) others.emplace_back(take);
  take();
}

}  // namespace stepsim
