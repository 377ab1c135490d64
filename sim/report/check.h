// What is known of a scenario without simulating it: is it valid, what is in effect, how it is laid
// out and whether it fits.
#pragma once

#include <string>
#include <vector>

#include "sim/lower/inventory.h"
#include "sim/parallel/mesh.h"
#include "sim/report/report.h"

namespace stepsim {

/// `sized`: the layout is good enough to lay out layers and count memory; false = only findings.
struct CheckReport {
  bool valid = true, sized = false;
  std::vector<Straddling> straddling;
  std::vector<StageInventory> stages;
  std::vector<BucketRow> buckets;
  std::optional<MemoryReport> memory;  ///< of the rank that peaks
  RuleOfThumb rule;                    ///< whole model
  double parameters = 0, active_parameters = 0;
};
CheckReport make_check(const Scenario& scenario);

/// One screen, at most 100 columns, worst findings first.
std::string check_text(const Scenario& scenario, const CheckReport& report);
/// `valid`, `findings`, `effective`, `not_modelled`, `mesh`, `buckets`, `memory`, as in the report.
std::string check_json(const Scenario& scenario, const CheckReport& report);

}  // namespace stepsim
