#include "sim/report/check.h"

#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/config/read.h"

namespace stepsim::app {

int check(const RunOptions& options) {
  const Scenario scenario = read_input(options, Strictness::collect);
  const CheckReport report = make_check(scenario);
  Output json(options.json_file);
  if (json.asked()) {
    json.stream() << check_json(scenario, report);
    json.close();
  }
  if (!json.standard()) {
    Output text("-");
    text.stream() << check_text(scenario, report);
    text.close();
  }
  if (!report.valid) return 2;
  return report.memory && !report.memory->fits() ? 1 : 0;
}

}  // namespace stepsim::app
