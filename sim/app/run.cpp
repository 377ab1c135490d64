#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/base/error.h"
#include "sim/config/files.h"
#include "sim/config/read.h"
#include "sim/report/exposed.h"
#include "sim/report/html.h"
#include "sim/report/json.h"
#include "sim/report/kineto.h"
#include "sim/report/text.h"
#include "sim/report/trace.h"
#include "sim/simulate.h"

namespace stepsim::app {

namespace {

/// Unfolding multiplies the graph by the ranks of a stage: refused, with the count, before anything
/// is allocated. Free-form graphs are always unfolded.
void check_unfolded_size(const Scenario& s, bool asked) {
  const bool free_form = !s.costs && !s.cluster.links.empty();
  if (!asked && !free_form) return;
  const double tasks = estimated_tasks(s, s.parallel.world());
  if (tasks > static_cast<double>(most_tasks))
    throw Error("<command line>", asked ? "/--unfold" : "/cluster/system",
                fmt::format("{} ranks one by one{} make about {:.2g} tasks; the limit is {:.2g}",
                            s.parallel.world(), asked ? "" : " (a free-form graph)", tasks,
                            static_cast<double>(most_tasks)));
}

void check_outputs(const RunOptions& options) {
  const std::array<std::tuple<const char*, const char*, std::string>, 4> outputs{
      {{"--json", "report", options.json_file},
       {"--trace", "trace", options.trace_file},
       {"--html", "page", options.html_file},
       {"--kineto", "trace", options.kineto_file}}};
  for (const auto& [flag, what, file] : outputs)
    if (!file.empty() && options.recipe.empty() && same_file(file, options.scenario))
      throw Error("<command line>", fmt::format("/{}", flag),
                  fmt::format("would overwrite the scenario '{}'", options.scenario));
  for (size_t later = 1; later < outputs.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      const auto& [first, what, file] = outputs[earlier];
      const auto& [flag, own, path] = outputs[later];
      if (!file.empty() && !path.empty() && same_file(file, path))
        throw Error("<command line>", fmt::format("/{}", flag),
                    fmt::format("would overwrite the {}: {} and {} both name '{}'", what, first,
                                flag, path));
    }
  }
}

int report_stall(const std::string& file, const Stall& stall, bool as_json) {
  const std::string message =
      fmt::format("the step cannot finish: after {:.6g} s nothing moves, each waits for the next",
                  stall.reached_seconds);
  if (as_json) {
    const nlohmann::ordered_json body{
        {"error", {{"file", file}, {"pointer", ""}, {"message", message}}},
        {"stall", {{"since_seconds", stall.reached_seconds}, {"waits", stall.waits}}}};
    std::puts(body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  std::string text = message + "\n";
  for (const std::string& wait : stall.waits) text += fmt::format("  {}\n", wait);
  std::fputs(text.c_str(), stderr);
  return 1;
}

/// The simulated device of a rank; who stands for whom is not guessed.
uint32_t recorded_device(const LoweredStep& step, int rank) {
  std::string ranks;
  for (uint32_t d = 0; d < step.devices.size(); ++d) {
    if (step.devices[d].rank == rank) return d;
    if (d < 16) ranks += fmt::format("{}{}", d > 0 ? ", " : "", step.devices[d].rank);
  }
  throw Error("<command line>", "/--kineto-rank",
              fmt::format("rank {} is not simulated by itself; simulated: {}{} (--unfold: all)",
                          rank, ranks, step.devices.size() > 16 ? ", ..." : ""));
}

}  // namespace

Scenario read_input(const RunOptions& options, Strictness strictness) {
  check_outputs(options);
  const DataPaths data = find_data();
  if (options.recipe.empty() && options.scenario.empty())
    throw Error("<command line>", "/scenario", "scenario is required: a file, or --recipe NAME");
  std::vector<std::string> words = options.overrides;
  // With --recipe every word is an override, the first included.
  if (!options.recipe.empty() && !options.scenario.empty())
    words.insert(words.begin(), options.scenario);
  if (!options.dialect.empty()) words.push_back("_dialect=" + options.dialect);
  const std::string file =
      options.recipe.empty() ? options.scenario : find_recipe(options.recipe, data).string();
  return read_scenario(file, words, options.cluster, data, strictness);
}

int run(const RunOptions& options) {
  Scenario scenario = read_input(options, Strictness::first_error);
  // Nobody measured a network without contention.
  scenario.overridden |= options.no_contention;
  check_unfolded_size(scenario, options.unfold);
  const auto outcome =
      simulate(scenario, {.unfold = options.unfold, .sharing = !options.no_contention});
  if (const Stall* stall = std::get_if<Stall>(&outcome))
    return report_stall(scenario.file, *stall, options.json_file == "-");
  const Simulation& simulation = std::get<Simulation>(outcome);

  std::optional<uint32_t> recorded;
  if (!options.kineto_file.empty())
    recorded = recorded_device(simulation.lowered, options.kineto_rank);
  Output trace(options.trace_file), json(options.json_file), html(options.html_file);
  if (trace.asked()) {
    write_trace(trace.stream(), simulation.lowered, simulation.timeline);
    trace.close();
  }
  if (html.asked()) {
    html.stream() << report_html(scenario, simulation.lowered, simulation.timeline,
                                 simulation.report);
    html.close();
  }
  if (Output kineto(options.kineto_file); kineto.asked()) {
    write_kineto(kineto.stream(), simulation.lowered, simulation.timeline,
                 step_end(simulation.lowered, simulation.timeline), *recorded);
    kineto.close();
  }
  std::optional<Timing> timing;
  if (options.timing) timing = Timing{simulation.lower_seconds, simulation.engine_seconds};
  std::optional<ExposedTable> why;
  if (options.why)
    why =
        exposed(simulation.lowered, simulation.timeline, simulation.report, closed_gates(scenario));
  if (json.asked()) {
    json.stream() << report_json(scenario, simulation.report, timing, why ? &*why : nullptr);
    json.close();
  }
  if (!trace.standard() && !json.standard() && !html.standard()) {
    Output text("-");
    text.stream() << report_text(scenario, simulation.report);
    if (why) text.stream() << "\n" << exposed_text(*why, simulation.report.step_seconds);
    if (timing)
      text.stream() << fmt::format(
          "timing: lowering {:.0f} ms, engine {:.0f} ms, {:.1f} million tasks/s\n",
          timing->lower_seconds * 1e3, timing->engine_seconds * 1e3,
          simulation.lowered.graph.task_count() / timing->engine_seconds * 1e-6);
    text.close();
  }
  return simulation.report.memory && !simulation.report.memory->fits() ? 1 : 0;
}

}  // namespace stepsim::app
