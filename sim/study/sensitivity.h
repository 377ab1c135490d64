// How the step moves with each parameter, by simulating it again: nothing is linearised but the
// last percent.
//
//   elasticity = d ln step / d ln better     from steps with the parameter 1 % better and 1 % worse
// "1 % better" is a bandwidth or rate times 1.01, a latency or cost over 1.01. Where all parameters
// that hold time are in the table their elasticities add up to -1 (Euler: a step whose times all
// halve takes half as long); fixed gaps and shared limits leave a rest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/study/outcomes.h"

namespace stepsim {

/// The largest causes of a step in the ledger, with their shares.
struct Dominant {
  Cause cause = Cause::compute;
  double share = 0;
};

/// One parameter.
struct SensitivityRow {
  std::string name, words;
  double change = 1;          ///< how many times better one step is: 1.01, or 2 for a whole one
  double better_seconds = 0;  ///< the step with it so much better
  double elasticity = 0;      ///< negative: better is faster
  std::optional<double> free_seconds{};  ///< the step that is left when it costs nothing
  std::vector<Dominant> then{};          ///< what takes most of that
  std::string failure{};                 ///< why there are no figures
  bool per_token = false;                ///< of the time per token: the step's work changes
  /// Change of the step (or of the time per token) for 1 % better, relative.
  double for_one_percent() const;
};

/// Ranked: what helps most comes first.
struct Sensitivity {
  double step_seconds = 0;
  std::vector<Dominant> now;
  std::vector<SensitivityRow> rows;
  size_t simulations = 0;
};

/// Throws Error where the scenario itself cannot be simulated.
Sensitivity sensitivity(const Scenario& scenario, const Progress& progress = {});

std::string sensitivity_text(const Scenario& scenario, const Sensitivity& found);
std::string sensitivity_json(const Scenario& scenario, const Sensitivity& found);

}  // namespace stepsim
