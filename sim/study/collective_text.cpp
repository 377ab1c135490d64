// The validation of collectives as a page and as JSON.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/study/validate_collectives.h"

namespace stepsim {
namespace {

using nlohmann::ordered_json;

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string cell_line(const CollectiveCell& cell) {
  const bool any = cell.large.count > 0;
  std::string line = fmt::format("{:<34.34}{:<15.15}{:>6}{:>10}{:>10}{:>10}", cell.system, cell.op,
                                 cell.large.count, any ? percent(cell.large.median_abs) : "-",
                                 any ? fmt::format("{:+.1f} %", 100 * cell.large.bias) : "-",
                                 any ? percent(cell.large.max_abs) : "-");
  if (cell.small.count > 0)
    line += fmt::format("{:>8}/{}", cell.small.count - cell.beyond_double, cell.small.count);
  return line + "\n";
}

ordered_json statistics_json(const RelativeErrors& s) {
  if (s.count == 0) return nullptr;
  return {{"count", s.count},     {"mean_abs", s.mean_abs}, {"median_abs", s.median_abs},
          {"p90_abs", s.p90_abs}, {"max_abs", s.max_abs},   {"bias", s.bias}};
}

}  // namespace

std::string validation_text(const CollectiveValidation& v) {
  std::string text = fmt::format("{:<34}{:<15}{:>6}{:>10}{:>10}{:>10}{:>12}\n", "system",
                                 "operation", "rows", "median", "bias", "worst", "small ok");
  for (const CollectiveCell& cell : v.cells) text += cell_line(cell);
  text += cell_line(v.overall);
  text +=
      "median, bias, worst: relative error of messages from 1 MiB on; small ok: below 1 MiB, "
      "within "
      "2x\n";
  if (v.timing_factor != 1)
    text += fmt::format("rows that a framework timed: times {:.2f}, one factor for the method\n",
                        v.timing_factor);
  if (v.named > 0)
    text += fmt::format("the algorithm is the one the source names in {} of {} rows\n", v.agreed,
                        v.named);
  std::map<std::string, int> failures;
  for (const MeasuredCollective& row : v.rows)
    if (!row.failure.empty()) ++failures[row.failure];
  int failed = 0;
  for (const auto& [reason, count] : failures) failed += count;
  if (failed > 0) text += fmt::format("{} of {} rows are not predicted\n", failed, v.rows.size());
  for (const auto& [reason, count] : failures)
    text += fmt::format("{:>6}  {:.90}\n", count, reason);
  return text;
}

std::string validation_json(const CollectiveValidation& v) {
  ordered_json rows = ordered_json::array();
  for (const MeasuredCollective& row : v.rows) {
    const bool placed = row.failure.empty();
    rows.push_back({{"id", fmt::format("line {}", row.line)},
                    {"group", row.system + " " + row.op},
                    {"tier", nullptr},
                    {"message_bytes", row.bytes},
                    {"measured_seconds", row.measured_seconds},
                    {"predicted_seconds", placed ? ordered_json(row.predicted_seconds) : nullptr},
                    {"relative_error", placed ? ordered_json(row.error()) : nullptr},
                    {"algorithm", placed ? ordered_json(row.algorithm) : nullptr},
                    {"protocol", placed ? ordered_json(row.protocol) : nullptr},
                    {"failure", placed ? ordered_json(nullptr) : ordered_json(row.failure)}});
  }
  ordered_json groups = ordered_json::object(), small = ordered_json::object();
  for (const CollectiveCell& cell : v.cells) {
    groups[cell.system + " " + cell.op] = statistics_json(cell.large);
    if (cell.small.count > 0) small[cell.system + " " + cell.op] = statistics_json(cell.small);
  }
  const ordered_json body{{"rows", rows},
                          {"statistics",
                           {{"overall", statistics_json(v.overall.large)},
                            {"by_group", groups},
                            {"below_1_mib",
                             {{"overall", statistics_json(v.overall.small)},
                              {"within_2x", v.overall.small.count - v.overall.beyond_double},
                              {"by_group", small}}},
                            {"timing_factor", v.timing_factor}}}};
  return body.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stepsim
