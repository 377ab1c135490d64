#include "sim/study/workers.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace stepsim {

int core_count() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

void for_each_index(size_t count, int threads, const std::function<bool()>& stop,
                    const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next++; i < count && !(stop && stop()); i = next++) work(i);
  };
  std::vector<std::thread> others;
  const size_t helpers = std::min(count, static_cast<size_t>(std::max(1, threads)));
  for (size_t t = 1; t < helpers; ++t) others.emplace_back(run);
  run();
  for (std::thread& t : others) t.join();
}

}  // namespace stepsim
