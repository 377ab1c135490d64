// `stepsim explain-measured`: what one parameter would have to be for a measured step time, and a
// profiler's trace beside the prediction.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/app/progress.h"
#include "sim/base/error.h"
#include "sim/base/quantity.h"
#include "sim/study/compared.h"
#include "sim/study/inverse.h"

namespace stepsim::app {
namespace {

Recording read_trace(const std::string& file, const std::array<bool, comm_class_count>& present) {
  if (file == "-") return read_recording(std::cin, "<standard input>", present);
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(file, "", fmt::format("cannot be read: {}", std::strerror(errno)));
  return read_recording(in, file, present);
}

std::optional<double> asked_seconds(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const QuantityText parsed = parse_quantity(text, Dimension::time);
  if (!parsed.problem.empty()) throw Error("<command line>", "/--step-time", parsed.problem);
  if (!(parsed.value > 0))
    throw Error("<command line>", "/--step-time", "must be more than 0; got " + text);
  return parsed.value;
}

}  // namespace

int explain_measured(const MeasuredOptions& options) {
  std::optional<double> measured = asked_seconds(options.step_time);
  if (!measured && options.trace.empty())
    throw Error("<command line>", "/--step-time",
                "is required: the measured time of one step with its unit, as 9.6s or \"9600 ms\"; "
                "or --kineto, a trace with annotated steps");
  const std::string& json_file = options.run.json_file;
  if (!json_file.empty() && !options.trace.empty() && same_file(json_file, options.trace))
    throw Error("<command line>", "/--json", "would overwrite the trace '" + options.trace + "'");
  const Scenario scenario = read_input(options.run, Strictness::first_error);
  std::optional<Recording> recording;
  std::optional<PredictedDevice> predicted;
  if (!options.trace.empty()) {
    auto outcome = simulate(scenario);
    Simulation* simulation = std::get_if<Simulation>(&outcome);
    if (simulation == nullptr) throw Error(scenario.file, "", "the step cannot finish");
    recording = read_trace(options.trace, present_classes(simulation->report.communication));
    predicted =
        predicted_device(scenario, *simulation, options.rank ? options.rank : recording->rank);
    if (!measured) measured = recording->step_seconds;
  }
  Output json(json_file);
  const Reread reread = [&options](const std::vector<std::string>& overrides) {
    RunOptions more = options.run;
    more.overrides.insert(more.overrides.end(), overrides.begin(), overrides.end());
    return read_input(more, Strictness::first_error);
  };
  const Inverse found = explain_step(scenario, *measured, reread, terminal_progress("candidates"));
  if (json.asked()) {
    nlohmann::ordered_json body = nlohmann::ordered_json::parse(inverse_json(scenario, found));
    if (recording) body["trace"] = compared_json(*recording, *predicted);
    json.stream() << body.dump(2) << "\n";
    json.close();
  }
  if (json.standard()) return 0;
  Output text("-");
  text.stream() << inverse_text(found);
  if (recording) text.stream() << "\n" << compared_text(*recording, *predicted);
  text.close();
  return 0;
}

}  // namespace stepsim::app
