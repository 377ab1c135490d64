// The report as JSON: a contract that scripts depend on (schema stepsim.report/1).
// SI units with the unit in the name; what does not apply, or is not simulated, is null, never 0
// or 1. Law: same input, same bytes; doubles are the shortest text that reads back the same.
#pragma once

#include <optional>
#include <string>

#include "sim/report/report.h"

namespace stepsim {

/// Wall-clock of the simulator itself; written only when asked for, since it differs from run to
/// run.
struct Timing {
  double lower_seconds = 0, engine_seconds = 0;
};

struct ExposedTable;

/// Indented, ends with a newline. `exposed`: why communication is exposed; written when asked for.
std::string report_json(const Scenario& scenario, const Report& report,
                        const std::optional<Timing>& timing = std::nullopt,
                        const ExposedTable* exposed = nullptr);

/// Printable names of enumerations, shared with the text report.
std::string_view name(Finding::Kind kind);
std::string_view name(Dtype type);

}  // namespace stepsim
