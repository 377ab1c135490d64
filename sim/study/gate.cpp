#include "sim/study/gate.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "sim/base/error.h"
#include "sim/base/quantity.h"
#include "sim/base/table.h"
#include "sim/config/document.h"
#include "sim/study/diff_text.h"

namespace stepsim {

void read_fail_above(Gate& gate, const std::string& text, const std::string& pointer) {
  if (text.ends_with('%')) {
    double value = 0;
    const char* end = text.data() + text.size() - 1;
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    std::string_view rest(stop, static_cast<size_t>(end - stop));
    if (problem == std::errc() && rest.find_first_not_of(' ') == rest.npos && value >= 0) {
      gate.most_relative = value / 100;
      return;
    }
  } else if (const QuantityText time = parse_quantity(text, Dimension::time);
             time.problem.empty() && time.value >= 0) {
    gate.most_seconds = time.value;
    return;
  }
  throw Error(std::string(command_line_name), pointer,
              "expected a share of the step such as 2%, or a time such as '50 ms'; got '" +
                  printable(text) + "'");
}

void read_fail_on(Gate& gate, const std::string& word, const std::string& pointer) {
  static const std::vector<std::string> words{"does-not-fit", "error", "silent"};
  if (word == "silent")
    gate.silent = true;
  else if (word == "error")
    gate.refused = true;
  else if (word != "does-not-fit")  // always on
    throw Error(std::string(command_line_name), pointer,
                "unknown condition '" + printable(word) + "'" + suggestion(word, words));
}

std::vector<std::string> misses(const Diff& d, const Gate& gate) {
  std::vector<std::string> found;
  if (gate.most_relative && d.relative() > *gate.most_relative)
    found.push_back(
        fmt::format("{:+.2f} % is above {:.6g} %", d.relative() * 100, *gate.most_relative * 100));
  if (gate.most_seconds && d.delta_seconds > *gate.most_seconds)
    found.push_back(fmt::format("{} is above {}",
                                diff_words::delta(d.delta_seconds, d.a.report.step_seconds),
                                diff_words::step(*gate.most_seconds)));
  if (gate.silent)
    for (const Finding& f : new_silent_findings(d.a.scenario, d.b.scenario))
      found.push_back(f.key + " is silently changed");
  if (!d.fits()) found.push_back("does not fit in memory");
  return found;
}

}  // namespace stepsim
