// `stepsim sensitivity`: what the step depends on.
#include "sim/study/sensitivity.h"

#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/app/progress.h"
#include "sim/config/read.h"

namespace stepsim::app {

int sensitivity(const RunOptions& options) {
  const Scenario scenario = read_input(options, Strictness::first_error);
  Output json(options.json_file);
  const Sensitivity found = stepsim::sensitivity(scenario, terminal_progress("steps"));
  if (json.asked()) {
    json.stream() << sensitivity_json(scenario, found);
    json.close();
  }
  if (!json.standard()) write_all("-", sensitivity_text(scenario, found));
  return 0;
}

}  // namespace stepsim::app
