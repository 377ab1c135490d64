// How far a predicted step time may be off: an interval that should hold the measured time in
// `level` of all cases.
//
// var(step) / step^2 = sum over parameters of (share of the step * relative uncertainty)^2 + of the
// whole^2: parameters are independent, and each moves all that it decides together. Pipeline
// bubbles move with the kernels. Included: residuals of kernels, collectives and dispatchers
// against published measurements, the host's time of an operator, the spread of releases. Not
// included: a setting that is not what the run had, and what a finding says is not modelled.
#pragma once

#include <optional>
#include <string_view>

#include "sim/engine/timeline.h"
#include "sim/lower/lowered.h"
#include "sim/report/ledger.h"

namespace stepsim {

struct StepInterval {
  double low_seconds = 0, high_seconds = 0;
  double level = 0;         ///< share of measured times that should lie inside
  std::string_view widest;  ///< the parameter that adds most to the width
  double widest_share = 0;  ///< of the variance
};

/// Of a step from a model; `mean`: its ledger. Absent without time.
std::optional<StepInterval> step_interval(const LoweredStep& step, const Timeline& timeline,
                                          const Ledger& mean, double step_seconds);

}  // namespace stepsim
