#include "sim/study/outcomes.h"

#include <new>

#include "sim/base/error.h"

namespace stepsim {

StepOutcome outcome_of(const Case& one) {
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

std::vector<StepOutcome> outcomes(std::span<const Case> cases, const Progress& progress) {
  std::vector<StepOutcome> results(cases.size());
  for_each_piece(
      cases.size(), core_count(), [&](size_t i) { results[i] = outcome_of(cases[i]); }, progress);
  return results;
}

}  // namespace stepsim
