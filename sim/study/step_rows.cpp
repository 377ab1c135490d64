#include "sim/study/step_rows.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"
#include "sim/simulate.h"
#include "sim/study/assume.h"
#include "sim/study/csv.h"
#include "sim/study/workers.h"

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
void read_row(StepRow& row, json scenario, const std::string& place, const std::string& cluster,
              const DataPaths& data) {
  try {
    const Scenario collected =
        read_scenario_text(scenario.dump(), place, {}, cluster, data, Strictness::collect);
    row.row.assumed = assume(scenario, collected);
    row.scenario = read_scenario_text(scenario.dump(), place, {}, cluster, data);
  } catch (const Error& error) {
    row.row.failure = error.pointer() + ": " + error.message();
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

std::vector<StepRow> read_lines(const std::string& file, const DataPaths& data, int every,
                                const std::string& cluster) {
  std::istringstream lines(read_text(file));
  std::vector<StepRow> rows;
  int number = 0;
  std::map<std::string, std::string> first;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos || (number - 1) % every != 0) continue;
    const std::string place = file + ":" + std::to_string(number);
    const Document document = parse_line(line, number, file);
    const Reader top(document, "");
    StepRow& row = rows.emplace_back();
    row.row = measured_step(top);
    if (!top.child("scenario").present()) top.fail("scenario", "is missing; expected an object");
    json scenario = document.root->at("scenario");
    row.row.scenario = first.try_emplace(scenario.dump(), row.row.id).first->second;
    if (top.has("release") && !scenario.contains("software"))
      scenario["software"] = {{"release", top.required_string("release")}};
    if (row.row.measured_seconds > 0)
      read_row(row, std::move(scenario), place, cluster, data);
    else
      row.row.failure = "no measured step time";
  }
  return rows;
}

std::vector<StepRow> read_table(const std::string& file, const DataPaths& data, int every,
                                const std::string& cluster) {
  std::vector<StepRow> rows;
  int number = 0;
  for (const CsvRow& fields :
       parse_csv(read_text(file), file, {"name", "scenario", "step_seconds"})) {
    if (number++ % every != 0) continue;
    StepRow& row = rows.emplace_back();
    row.row.id = printable(fields.at("name"));
    row.row.group = row.row.id;
    row.row.scored = true;
    row.row.measured_seconds = number_in(fields, "step_seconds", file);
    if (row.row.measured_seconds <= 0)
      throw Error(file, std::to_string(fields.line) + ":1",
                  "step_seconds must be a time in seconds above 0");
    fs::path path = fields.at("scenario");
    std::error_code unreadable;
    if (!fs::exists(path, unreadable) && path.is_relative())
      path = fs::path(file).parent_path() / path;
    row.row.scenario = path.string();
    // One's own scenarios are there to be put right: an error in one is an error.
    row.scenario = read_scenario(path.string(), {}, cluster, data);
  }
  return rows;
}

void predict_step(StepRow& row) {
  MeasuredStep& step = row.row;
  try {
    const auto outcome = simulate(*row.scenario);
    if (const auto* done = std::get_if<Simulation>(&outcome)) {
      const Report& report = done->report;
      step.predicted_seconds = step.low_seconds = step.high_seconds = report.step_seconds;
      if (!report.interval) return;
      step.low_seconds = report.interval->low_seconds;
      step.high_seconds = report.interval->high_seconds;
      step.doubt_shares = report.interval->shares;
    } else
      step.failure = "the step cannot finish: " + std::get<Stall>(outcome).waits.front();
  } catch (const Error& error) {
    step.failure = error.pointer() + ": " + error.message();
  }
}

}  // namespace

std::vector<StepRow> read_step_rows(const std::string& file, const DataPaths& data, int every,
                                    const std::string& cluster) {
  std::error_code unreadable;
  if (fs::is_directory(file, unreadable))
    throw Error(file, "", "is a directory; expected a file of JSON lines, or a CSV file");
  const bool table = fs::path(file).extension() == ".csv";
  return (table ? read_table : read_lines)(file, beside(file, data), every, cluster);
}

void predict(std::span<StepRow> rows) {
  for_each_piece(rows.size(), core_count(), [&](size_t i) {
    if (rows[i].scenario && rows[i].row.failure.empty()) predict_step(rows[i]);
  });
}

}  // namespace stepsim
