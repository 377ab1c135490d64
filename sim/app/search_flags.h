// Options, flags and help of the commands that simulate many scenarios.
#pragma once

#include <CLI/CLI.hpp>

#include "sim/app/options.h"
#include "sim/app/processes.h"

namespace stepsim::app {

/// Options of `sweep`.
struct SweepOptions {
  RunOptions input;
  std::vector<std::string> vary, zip;  ///< KEY=VALUES
  std::string from;                    ///< a list of points
  std::string csv_file, svg_file;      ///< "-" = stdout; empty = not asked
  std::string resume_file;             ///< journal of what is done
  int threads = 0;                     ///< 0: all cores
};
/// Options of `plan`. Rates and times below 0, and counts of 0: not said.
struct PlanOptions {
  RunOptions input;  ///< its scenario may be a model's name
  std::string gpus, tokens, max_days, target;
  int64_t sequence = 0, global_batch = 0;
  std::vector<std::string> vary, only;
  std::string against, save_file;
  int top = 5, threads = 0, sample = 0;
  bool tp_across_domains = false, no_frontier = false, brute_force = false, as_overrides = false,
       guide = false;
  double price = 0, budget = 0, watts = 0;
  double gpu_mtbf = -1, link_mtbf = -1, host_mtbf = -1;  ///< hours
  double checkpoint = -1, restart = -1, interval = 0;    ///< seconds
};

void add_sweep_flags(CLI::App* command, SweepOptions& options);
void add_plan_flags(CLI::App* command, PlanOptions& options);

/// Simulates a scenario at many points: 0 some point fits, 1 none does, 130 interrupted.
int sweep(const SweepOptions& options, Processes& processes);
/// Searches the fastest layout: 0 found, 1 none fits or answers the question, 130 interrupted.
int plan(const PlanOptions& options, Processes& processes);

}  // namespace stepsim::app
