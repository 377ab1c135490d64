// The report as one screen of text for a person: at most 100 columns, worst news first, units on
// every figure.
#pragma once

#include <string>

#include "sim/report/report.h"

namespace stepsim {

/// ASCII, every line at most 100 columns, ends with a newline.
std::string report_text(const Scenario& scenario, const Report& report);

}  // namespace stepsim
