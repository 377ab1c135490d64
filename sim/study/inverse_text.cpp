// What explains a measured step, as a page and as JSON.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/page.h"
#include "sim/study/inverse.h"

namespace stepsim {
namespace {

/// How far out a distance is, for a person.
std::string_view verdict(double distance) {
  if (distance <= 1) return "likely";
  if (distance <= 2) return "plausible";
  return distance <= 4 ? "a stretch" : "hardly";
}

}  // namespace

std::string inverse_text(const Inverse& found) {
  Page page(page_width);
  const double moved = found.measured_seconds / found.predicted_seconds - 1;
  page.line("Measured       {:.4g} s, predicted {:.4g} s: {:+.2f} %", found.measured_seconds,
            found.predicted_seconds, 100 * moved);
  page.line("               {:.1f} times the prediction's own standard deviation of {:.1f} %",
            found.own_distance(), 100 * found.own_sigma);
  if (found.rows.empty()) {
    page.line("               nothing to explain");
    return page.text();
  }
  page.blank();
  page.line("{:<44}{:>9}  {:<11}{}", "One parameter that explains it", "distance", "", "would be");
  bool impossible = false;
  for (const Explanation& row : found.rows) {
    if (!row.possible && !impossible) {
      page.blank();
      page.line("Cannot explain it, however far it is turned");
      impossible = true;
    }
    if (!row.possible) {
      page.paragraph(fmt::format("  {:<42}", row.words), row.note, 2);
    } else if (row.factor) {
      page.line("  {:<42}{:>9.1f}  {:<11}{}", row.words, row.distance, verdict(row.distance),
                row.value);
    } else {
      page.line("  {:<42}{:>9.1f}  {:<11}step {:.4g} s, {}", row.words, row.distance,
                verdict(row.distance), row.step_seconds, row.value);
    }
  }
  page.blank();
  page.line("Distance: from the described value in standard deviations of what is known of it. A");
  page.line("switch counts 1, and what its step still misses in the prediction's own deviation.");
  page.line("{} simulations of the whole step.", found.simulations);
  return page.text();
}

std::string inverse_json(const Scenario& scenario, const Inverse& found) {
  using nlohmann::ordered_json;
  ordered_json rows = ordered_json::array();
  for (const Explanation& row : found.rows)
    rows.push_back(
        {{"name", row.name},
         {"description", row.words},
         {"possible", row.possible},
         {"value", row.possible ? ordered_json(row.value) : nullptr},
         {"factor", row.factor ? ordered_json(*row.factor) : nullptr},
         {"sigma", row.sigma > 0 ? ordered_json(row.sigma) : nullptr},
         {"distance", row.possible ? ordered_json(row.distance) : nullptr},
         {"step_time_seconds", row.step_seconds > 0 ? ordered_json(row.step_seconds) : nullptr},
         {"note", row.note.empty() ? ordered_json(nullptr) : ordered_json(row.note)}});
  const ordered_json body{{"schema", "stepsim.explain_measured/1"},
                          {"scenario", scenario.file},
                          {"measured_seconds", found.measured_seconds},
                          {"predicted_seconds", found.predicted_seconds},
                          {"own_sigma", found.own_sigma},
                          {"own_distance", found.own_distance()},
                          {"explanations", rows},
                          {"simulations", found.simulations}};
  return body.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stepsim
