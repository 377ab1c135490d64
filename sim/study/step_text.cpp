// The validation of step times as a page and as JSON.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/study/validate_steps.h"

namespace stepsim {
namespace {

using nlohmann::ordered_json;

std::string step_line(const StepCell& cell) {
  const RelativeErrors& s = cell.all;
  std::string line = fmt::format("{:<52.52}{:>6}", cell.group, s.count);
  if (s.count > 0)
    line += fmt::format("{:>8.1f} %{:>+8.1f} %{:>8.1f} %", 100 * s.mean_abs, 100 * s.bias,
                        100 * s.max_abs);
  else
    line += fmt::format("{:>10}{:>10}{:>10}", "-", "-", "-");
  return line + (cell.failed > 0 ? fmt::format("{:>8}", cell.failed) : "") + "\n";
}

ordered_json errors_json(const RelativeErrors& s) {
  if (s.count == 0) return nullptr;
  return {{"count", s.count},     {"mean_abs", s.mean_abs}, {"median_abs", s.median_abs},
          {"p90_abs", s.p90_abs}, {"max_abs", s.max_abs},   {"bias", s.bias}};
}

}  // namespace

std::string validation_text(const StepValidation& v) {
  std::string text = fmt::format("{:<52}{:>6}{:>10}{:>10}{:>10}{:>8}\n", "group", "rows", "mean",
                                 "bias", "worst", "failed");
  for (const StepCell& cell : v.groups) text += step_line(cell);
  text += step_line(v.overall);
  if (const RelativeErrors& s = v.overall.scored; s.count > 0)
    text += fmt::format(
        "scored (tier A, newest of its source, one vote a scenario): {} of them, mean {:.1f} %,\n"
        "  90th percentile {:.1f} %, worst {:.1f} %, bias {:+.1f} %; {:.0f} % of times inside the "
        "80 % interval\n",
        s.count, 100 * s.mean_abs, 100 * s.p90_abs, 100 * s.max_abs, 100 * s.bias,
        100 * v.overall.inside);
  std::map<std::string, int> failures, assumed;
  for (const MeasuredStep& row : v.rows) {
    if (!row.failure.empty()) ++failures[row.failure];
    for (const std::string& key : row.assumed) ++assumed[key];
  }
  for (const auto& [key, count] : assumed)
    text += fmt::format("{:>6} rows: {} assumed, nobody published it\n", count, key);
  if (v.overall.failed > 0)
    text += fmt::format("{} of {} rows are not predicted\n", v.overall.failed, v.rows.size());
  for (const auto& [reason, count] : failures)
    text += fmt::format("{:>6}  {:.110}\n", count, reason);
  return text;
}

std::string validation_json(const StepValidation& v) {
  ordered_json rows = ordered_json::array();
  for (const MeasuredStep& row : v.rows) {
    const bool ran = row.failure.empty();
    rows.push_back({{"id", row.id},
                    {"group", row.group},
                    {"tier", row.tier.empty() ? ordered_json(nullptr) : ordered_json(row.tier)},
                    {"measured_seconds",
                     row.measured_seconds > 0 ? ordered_json(row.measured_seconds) : nullptr},
                    {"predicted_seconds", ran ? ordered_json(row.predicted_seconds) : nullptr},
                    {"low_seconds", ran ? ordered_json(row.low_seconds) : nullptr},
                    {"high_seconds", ran ? ordered_json(row.high_seconds) : nullptr},
                    {"relative_error", ran ? ordered_json(row.error()) : nullptr},
                    {"assumed", row.assumed},
                    {"failure", ran ? ordered_json(nullptr) : ordered_json(row.failure)}});
  }
  ordered_json groups = ordered_json::object();
  for (const StepCell& cell : v.groups) groups[cell.group] = errors_json(cell.all);
  const ordered_json body{{"rows", rows},
                          {"statistics",
                           {{"overall", errors_json(v.overall.all)},
                            {"scored", errors_json(v.overall.scored)},
                            {"by_group", groups}}}};
  return body.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stepsim
