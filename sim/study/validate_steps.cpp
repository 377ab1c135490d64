#include "sim/study/validate_steps.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"
#include "sim/simulate.h"
#include "sim/study/assume.h"

namespace stepsim {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Models and systems that lie beside the rows.
DataPaths beside(const std::string& file, DataPaths data) {
  const fs::path folder = fs::path(file).parent_path();
  std::error_code unreadable;
  data.more_models.push_back(folder / "models");
  for (const char* name : {"systems", "systems.json"})
    if (fs::exists(folder / name, unreadable)) data.more_systems.push_back(folder / name);
  return data;
}

/// Reads once with every refusal collected, assumes what is missing, and reads as a run does.
Scenario read_row(json scenario, const std::string& place, const DataPaths& data,
                  std::vector<std::string>& assumed) {
  const Scenario collected =
      read_scenario_text(scenario.dump(), place, {}, "", data, Strictness::collect);
  assumed = assume(scenario, collected);
  return read_scenario_text(scenario.dump(), place, {}, "", data);
}

void predict_step(MeasuredStep& row, const json& scenario, const std::string& place,
                  const DataPaths& data) {
  try {
    const auto outcome = simulate(read_row(scenario, place, data, row.assumed));
    if (const auto* done = std::get_if<Simulation>(&outcome)) {
      const Report& report = done->report;
      row.predicted_seconds = report.step_seconds;
      row.low_seconds = report.interval ? report.interval->low_seconds : report.step_seconds;
      row.high_seconds = report.interval ? report.interval->high_seconds : report.step_seconds;
    } else
      row.failure = "the step cannot finish: " + std::get<Stall>(outcome).waits.front();
  } catch (const Error& error) {
    row.failure = error.pointer() + ": " + error.message();
  }
}

MeasuredStep measured_step(const Reader& top) {
  MeasuredStep row;
  row.id = printable(top.required_string("id"));
  row.group = printable(top.string("group", ""));
  row.tier = printable(top.string("tier", ""));
  row.scored =
      row.tier == "A" && top.boolean("newest", true) && !top.has("suspect") && !top.has("history");
  const Reader measured = top.child("measured");
  if (measured.has("step_time_seconds"))
    row.measured_seconds = measured.required_number("step_time_seconds", 1e-9, 1e9);
  return row;
}

StepCell cell_of(const std::string& group, const std::vector<const MeasuredStep*>& rows) {
  StepCell cell{group, {}, {}, 0, 0};
  std::vector<double> all, scored;
  std::map<std::string, std::vector<double>> votes;
  int inside = 0, of_scored = 0;
  for (const MeasuredStep* row : rows) {
    if (!row->failure.empty()) {
      ++cell.failed;
      continue;
    }
    all.push_back(row->error());
    if (!row->scored) continue;
    votes[row->scenario].push_back(row->error());
    ++of_scored;
    inside += row->inside();
  }
  for (const auto& [scenario, errors] : votes)
    scored.push_back(std::accumulate(errors.begin(), errors.end(), 0.0) /
                     static_cast<double>(errors.size()));
  cell.inside = of_scored > 0 ? static_cast<double>(inside) / of_scored : 0;
  cell.all = statistics_of(all);
  cell.scored = statistics_of(scored);
  return cell;
}

/// A line of a file; a syntax error in it is the file's, at that line.
Document parse_line(const std::string& line, int number, const std::string& file) {
  try {
    return parse_document(line, file + ":" + std::to_string(number));
  } catch (const Error& error) {
    if (error.pointer().starts_with('/') || error.pointer().empty()) throw;
    const size_t column = error.pointer().find(':') + 1;
    throw Error(file, std::to_string(number) + ":" + error.pointer().substr(column),
                error.message());
  }
}

}  // namespace

StepValidation validate_steps(const std::string& file, const DataPaths& data, int every) {
  std::error_code unreadable;
  if (fs::is_directory(file, unreadable))
    throw Error(file, "", "is a directory; expected a file of JSON lines");
  std::istringstream lines(read_text(file));
  const DataPaths paths = beside(file, data);
  StepValidation result;
  int number = 0;
  std::map<std::string, std::string> first;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos || (number - 1) % every != 0) continue;
    const std::string place = file + ":" + std::to_string(number);
    const Document document = parse_line(line, number, file);
    const Reader top(document, "");
    MeasuredStep row = measured_step(top);
    if (!top.child("scenario").present()) top.fail("scenario", "is missing; expected an object");
    json scenario = document.root->at("scenario");
    row.scenario = first.try_emplace(scenario.dump(), row.id).first->second;
    if (top.has("release") && !scenario.contains("software"))
      scenario["software"] = {{"release", top.required_string("release")}};
    if (row.measured_seconds > 0)
      predict_step(row, scenario, place, paths);
    else
      row.failure = "no measured step time";
    result.rows.push_back(std::move(row));
  }
  std::map<std::string, std::vector<const MeasuredStep*>> groups;
  std::vector<const MeasuredStep*> all;
  for (const MeasuredStep& row : result.rows) {
    groups[row.group].push_back(&row);
    all.push_back(&row);
  }
  for (const auto& [group, rows] : groups) result.groups.push_back(cell_of(group, rows));
  std::stable_sort(
      result.groups.begin(), result.groups.end(),
      [](const StepCell& a, const StepCell& b) { return a.all.mean_abs > b.all.mean_abs; });
  result.overall = cell_of("overall", all);
  return result;
}

}  // namespace stepsim
