// The sensitivity of a step as a page and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "sim/report/page.h"
#include "sim/study/sensitivity.h"

namespace stepsim {
namespace {

using nlohmann::ordered_json;

std::string step_time(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} us", seconds * 1e6);
}

std::string shares(const std::vector<Dominant>& causes, size_t most) {
  std::string text;
  for (const Dominant& d : std::span(causes).first(std::min(most, causes.size())))
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", name(d.cause), 100 * d.share);
  return text;
}

bool small(const SensitivityRow& row) { return row.change == 1.01 || row.change == 1; }
/// What no figure would show.
bool nothing(const SensitivityRow& row, double step) {
  return std::abs(row.for_one_percent()) < 5e-6 &&
         (!row.free_seconds || std::abs(*row.free_seconds / step - 1) < 5e-5);
}

ordered_json causes_json(const std::vector<Dominant>& causes) {
  ordered_json out = ordered_json::array();
  for (const Dominant& d : causes) out.push_back({{"cause", name(d.cause)}, {"share", d.share}});
  return out;
}

}  // namespace

std::string sensitivity_text(const Scenario& scenario, const Sensitivity& found) {
  Page page(page_width);
  const double step = found.step_seconds;
  page.line("Step time      {} on {} GPUs: {}", step_time(step), scenario.parallel.world(),
            shares(found.now, 3));
  page.blank();
  page.line("{:<34}{:>10}{:>14}{:>9}  {}", "", "1 % better", "costs nothing", "saves", "and then");
  double sum = 0;
  std::vector<std::string> idle;
  for (const SensitivityRow& row : found.rows) {
    if (!small(row) || !row.failure.empty()) continue;
    if (row.change > 1 && row.name != "clocks") sum += row.for_one_percent();
    if (nothing(row, step)) {
      idle.push_back(row.words);
      continue;
    }
    page.line(
        "{:<34}{:>10}{:>14}{:>9}  {}", row.words,
        row.change > 1 ? fmt::format("{:+.3f} %", 100 * row.for_one_percent()) : "-",
        row.free_seconds ? step_time(*row.free_seconds) : "-",
        row.free_seconds ? fmt::format("{:.1f} %", 100 * (1 - *row.free_seconds / step)) : "-",
        shares(row.then, 2));
  }
  page.line("{:<34}{:>10}", "all of them together, about", fmt::format("{:+.3f} %", 100 * sum));
  if (!idle.empty()) page.list("No effect      ", idle, 3);
  page.blank();
  for (const SensitivityRow& row : found.rows) {
    if (small(row) || !row.failure.empty()) continue;
    const double ratio = row.better_seconds / (row.per_token ? row.change : 1) / step;
    page.line("{:<53}{:>+10.3f} %", row.words, 100 * (ratio - 1));
    if (row.free_seconds)
      page.line("{:<53}{:>+10.3f} %  {}", "without the injected faults",
                100 * (*row.free_seconds / step - 1), step_time(*row.free_seconds));
  }
  for (const SensitivityRow& row : found.rows)
    if (!row.failure.empty()) page.paragraph(row.words + ": ", row.failure, 2);
  page.blank();
  page.line("{} simulations of the whole step. 1 % better: a rate times 1.01, a latency or cost",
            found.simulations);
  page.line(
      "divided by it, mean of both sides. The clocks are the GEMM and attention rates together.");
  return page.text();
}

std::string sensitivity_json(const Scenario& scenario, const Sensitivity& found) {
  ordered_json rows = ordered_json::array();
  for (const SensitivityRow& row : found.rows) {
    const bool ran = row.failure.empty(), moved = ran && row.better_seconds > 0;
    rows.push_back(
        {{"name", row.name},
         {"description", row.words},
         {"factor", moved ? ordered_json(row.change) : nullptr},
         {"step_time_seconds", moved ? ordered_json(row.better_seconds) : nullptr},
         {"per_token", row.per_token},
         {"elasticity", moved ? ordered_json(row.elasticity) : nullptr},
         {"one_percent_better", moved ? ordered_json(row.for_one_percent()) : nullptr},
         {"free_step_time_seconds", row.free_seconds ? ordered_json(*row.free_seconds) : nullptr},
         {"then", causes_json(row.then)},
         {"failure", ran ? ordered_json(nullptr) : ordered_json(row.failure)}});
  }
  const ordered_json body{{"schema", "stepsim.sensitivity/1"},
                          {"scenario", scenario.file},
                          {"step_time_seconds", found.step_seconds},
                          {"now", causes_json(found.now)},
                          {"rows", rows},
                          {"simulations", found.simulations}};
  return body.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stepsim
