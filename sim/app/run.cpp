#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>

#include "sim/app/options.h"
#include "sim/base/error.h"
#include "sim/config/read.h"
#include "sim/report/json.h"
#include "sim/report/text.h"
#include "sim/report/trace.h"
#include "sim/simulate.h"

namespace stepsim::app {

namespace {

/// A file that the user named, or standard output for "-". Opened before anything is written
/// anywhere.
class Output {
 public:
  explicit Output(const std::string& path) : path_(path) {
    if (path.empty() || standard()) return;
    file_.open(path, std::ios::binary);
    if (!file_) throw Error(path, "", fmt::format("cannot be written: {}", std::strerror(errno)));
  }
  bool asked() const { return !path_.empty(); }
  bool standard() const { return path_ == "-"; }
  std::ostream& stream() { return standard() ? std::cout : file_; }
  void close() {
    stream().flush();
    if (!stream()) throw Error(path_, "", "could not be written completely");
  }

 private:
  std::string path_;
  std::ofstream file_;
};

/// Unfolding multiplies the graph by the ranks of a stage: refused, with the count, before anything
/// is allocated.
void check_unfolded_size(const Scenario& s) {
  constexpr double most_tasks = 1e8,
                   tasks_per_layer = 120;  // forward and backward, overlapped GEMMs in pieces
  const double layers = s.costs ? s.parallel.chunks() : double(s.model.layers) / s.parallel.pp;
  const double tasks = static_cast<double>(s.parallel.world()) *
                       static_cast<double>(s.batch.microbatches) * layers *
                       (s.costs ? 2 : tasks_per_layer);
  if (tasks > most_tasks)
    throw Error("<command line>", "/--unfold",
                fmt::format("{} ranks one by one make about {:.2g} tasks; the limit is {:.2g}",
                            s.parallel.world(), tasks, most_tasks));
}

int report_stall(const Stall& stall) {
  fmt::print(stderr, "the step cannot finish: these tasks wait for each other\n");
  for (const std::string& wait : stall.waits) fmt::print(stderr, "  {}\n", wait);
  return 1;
}

}  // namespace

int run(const RunOptions& options) {
  const Scenario scenario =
      read_scenario(options.scenario, options.overrides, options.cluster, find_data());
  if (options.unfold) check_unfolded_size(scenario);
  const auto outcome =
      simulate(scenario, {.unfold = options.unfold, .sharing = !options.no_contention});
  if (const Stall* stall = std::get_if<Stall>(&outcome)) return report_stall(*stall);
  const Simulation& simulation = std::get<Simulation>(outcome);

  Output trace(options.trace_file), json(options.json_file);
  if (trace.asked()) {
    write_trace(trace.stream(), simulation.lowered, simulation.timeline);
    trace.close();
  }
  std::optional<Timing> timing;
  if (options.timing) timing = Timing{simulation.lower_seconds, simulation.engine_seconds};
  if (json.asked()) {
    json.stream() << report_json(scenario, simulation.report, timing);
    json.close();
  }
  if (!trace.standard() && !json.standard()) {
    fmt::print("{}", report_text(scenario, simulation.report));
    if (timing)
      fmt::print("timing: lowering {:.0f} ms, engine {:.0f} ms, {:.1f} million tasks/s\n",
                 timing->lower_seconds * 1e3, timing->engine_seconds * 1e3,
                 simulation.lowered.graph.task_count() / timing->engine_seconds * 1e-6);
  }
  return simulation.report.memory && !simulation.report.memory->fits() ? 1 : 0;
}

}  // namespace stepsim::app
