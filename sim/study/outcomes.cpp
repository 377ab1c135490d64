#include "sim/study/outcomes.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <thread>

#include "sim/base/error.h"

namespace stepsim {

Outcome outcome_of(const Case& one) {
  try {
    const Scenario scenario = one.scenario();
    const auto result = simulate(scenario, one.options);
    if (const Simulation* done = std::get_if<Simulation>(&result))
      return {.seconds = done->report.step_seconds, .ledger = done->report.ledger};
    return {.ledger = {}, .failure = "the step cannot finish"};
  } catch (const Error& error) {
    return {.ledger = {}, .failure = error.what()};
  } catch (const std::bad_alloc&) {
    return {.ledger = {}, .failure = "needs more memory than this machine has"};
  }
}

void on_all_cores(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(cores, count); ++i) others.emplace_back(take);
  take();
  for (std::thread& other : others) other.join();
}

std::vector<Outcome> outcomes(std::span<const Case> cases, const Progress& progress) {
  std::vector<Outcome> results(cases.size());
  std::mutex telling;
  size_t done = 0;
  on_all_cores(cases.size(), [&](size_t i) {
    results[i] = outcome_of(cases[i]);
    const std::lock_guard lock(telling);
    if (progress) progress(++done, cases.size());
  });
  return results;
}

}  // namespace stepsim
