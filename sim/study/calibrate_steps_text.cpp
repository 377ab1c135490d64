// What a fit to measured steps found, as a page.
#include <fmt/format.h>

#include "sim/study/calibrate_steps.h"

namespace stepsim {
namespace {

std::string percent_text(double x) { return fmt::format("{:.1f} %", 100 * x); }

std::string group_lines(const std::string& title, const std::vector<StepGroup>& groups) {
  std::string text =
      fmt::format("\n{:<54}{:>6}{:>9}{:>10}{:>11}\n", title, "steps", "mean", "bias", "held out");
  for (const StepGroup& g : groups)
    text +=
        fmt::format("{:<54.54}{:>6}{:>9}{:>10}{:>11}\n", g.name, g.errors.count,
                    percent_text(g.errors.mean_abs), fmt::format("{:+.1f} %", 100 * g.errors.bias),
                    percent_text(g.without.mean_abs));
  return text;
}

}  // namespace

std::string calibration_text(const StepCalibration& c) {
  std::string text = fmt::format(
      "{} parameters come from steps: {} of them, of tier A, the newest of their source, one vote\n"
      "a scenario\n\n{:<54}{:>9}{:>11}{:>11}{:>8}\n",
      c.parameters.size(), c.steps, "parameter", "before", "after", "+-", "steps");
  for (const FittedStepParameter& p : c.parameters)
    text +=
        fmt::format("{:<54.54}{:>9.4g}{:>11.4g}{:>11.2g}{:>8} {}\n", label(p.parameter),
                    p.parameter.value, p.after, p.standard_error, p.steps, p.parameter.row->unit);
  for (const std::string& name : c.untold)
    text += fmt::format("{:<54.54} stays: these steps do not tell it\n", name);
  text += group_lines("group (held out: fitted to the others, from slopes)", c.groups);
  text += group_lines("family (held out: fitted to the others, simulated)", c.families);
  text += group_lines("file (held out: each family in turn)", c.tables);
  return text;
}

}  // namespace stepsim
