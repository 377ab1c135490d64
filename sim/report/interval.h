// How far a predicted step time may be off: an interval that should hold the measured time in
// `level` of all cases.
//
// var(log step) = sum over kinds of doubt of (share of the step * relative uncertainty)^2: kinds
// are independent, and each moves all that it decides together. Pipeline bubbles move with the
// kernels. A host that is hidden counts as far as it would show if it took a third longer; what a
// framework adds around sharded parameters counts for the whole step. Uncertainties are data,
// fitted to residuals (sim/config/doubts.h). Not included: a setting that is not what the run had,
// and what a finding says is not modelled.
#pragma once

#include <optional>
#include <string_view>

#include "sim/config/scenario.h"
#include "sim/engine/timeline.h"
#include "sim/lower/lowered.h"
#include "sim/report/ledger.h"

namespace stepsim {

struct StepInterval {
  double low_seconds = 0, high_seconds = 0;
  double level = 0;         ///< share of measured times that should lie inside
  std::string_view widest;  ///< the parameter that adds most to the width
  double widest_share = 0;  ///< of the variance
  ByDoubt shares{};         ///< of the step, by what decides them; `whole` is 1
};

/// 80 % of a normal distribution lie within so many standard deviations: half an interval.
constexpr double interval_deviations = 1.2816;

/// Factor by which the step may be longer or shorter at `level`.
double interval_factor(const ByDoubt& shares, const ByDoubt& doubts);
/// Of a step from a model; `mean`: its ledger. Absent without time, and where doubts are not known.
std::optional<StepInterval> step_interval(const Scenario& scenario, const LoweredStep& step,
                                          const Timeline& timeline, const Ledger& mean,
                                          double step_seconds);

}  // namespace stepsim
