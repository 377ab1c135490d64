#include "sim/lab/lab.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "sim/base/error.h"
#include "sim/config/import.h"
#include "sim/config/scenario_load.h"
#include "sim/report/html.h"
#include "sim/report/json.h"
#include "sim/simulate.h"

namespace stepsim {
namespace {

using Json = nlohmann::ordered_json;

/// More would take a browser's tab minutes and its memory.
constexpr double most_lab_tasks = 1.2e7;

std::string text_of(const Json& answer) {
  return answer.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// The document that `read_scenario_text` resolves, for the page's controls.
std::string merged_text(const std::string& text, const std::string& file,
                        const std::vector<std::string>& overrides) {
  Document document = with_bases(parse_any(text, file));
  apply_overrides(document, overrides);
  return document.root->dump();
}

std::string simulated(const Json& question, const DataPaths& data) {
  const auto text = question.at("text").get<std::string>(),
             file = question.at("file").get<std::string>(),
             want = question.at("want").get<std::string>();
  const auto overrides = question.at("overrides").get<std::vector<std::string>>();
  const Scenario scenario = read_scenario_text(text, file, overrides, "", data);
  const double tasks = estimated_tasks(scenario, scenario.parallel.pp);
  if (want == "page" && tasks > most_lab_tasks)
    throw Error(file, "",
                fmt::format("makes about {:.2g} tasks; the limit of the lab is {:.2g}: fewer "
                            "microbatches, or `stepsim run --html`",
                            tasks, most_lab_tasks));
  const auto outcome = simulate(scenario);
  if (const Stall* stall = std::get_if<Stall>(&outcome))
    return text_of(
        {{"stall", {{"since_seconds", stall->reached_seconds}, {"waits", stall->waits}}}});
  const Simulation& run = std::get<Simulation>(outcome);
  if (want == "report") return report_json(scenario, run.report);
  return "{\"document\":" + merged_text(text, file, overrides) +
         ",\"page\":" + page_data(scenario, run.lowered, run.timeline, run.report) + "}";
}

}  // namespace

std::string lab_answer(std::string_view question, const DataPaths& data) {
  try {
    return simulated(Json::parse(question), data);
  } catch (const Error& e) {
    return text_of(
        {{"error", {{"file", e.file()}, {"pointer", e.pointer()}, {"message", e.message()}}}});
  } catch (const std::exception& e) {
    return text_of({{"error", {{"file", ""}, {"pointer", ""}, {"message", e.what()}}}});
  }
}

}  // namespace stepsim
