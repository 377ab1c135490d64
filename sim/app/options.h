// What the words on the command line ask for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/config/read.h"

namespace stepsim {
struct KeySection;
}

namespace stepsim::app {

/// Options of commands that take a scenario.
struct RunOptions {
  std::string scenario;
  std::string recipe;                            ///< --recipe NAME in place of a scenario file
  std::vector<std::string> overrides;            ///< section.key=value
  std::string dialect;                           ///< bridge or megatron-lm; empty = the input's own
  std::string cluster;                           ///< NAME[:NODES]
  std::string json_file, trace_file, html_file;  ///< "-" = stdout; empty = not asked
  std::string kineto_file;  ///< one device as the PyTorch profiler would record it
  int kineto_rank = 0;
  bool unfold = false, no_contention = false, timing = false, why = false;
};

/// Options of `collective`.
struct CollectiveOptions {
  std::string op, cluster;             ///< cluster: NAME[:NODES]
  std::string bytes = "8M..8G";        ///< sizes, doubling from .. to
  std::vector<std::string> overrides;  ///< cluster.*, software.nccl and env_vars.*
  int gpus = 0, per_node = 0;          ///< 0: all
  std::string json_file;
};
/// Options of `validate`.
struct ValidateOptions {
  std::string collectives;  ///< CSV file
  std::string kernels;      ///< CSV file
  std::string rows;         ///< steps, JSON lines or CSV
  std::string cluster;      ///< in place of what steps say
  std::string svg_file;     ///< scatter of predicted against measured
  std::string json_file;
};
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
  int top = 5, threads = 0;
  bool tp_across_domains = false, no_frontier = false, brute_force = false, as_overrides = false,
       guide = false;
  double price = 0, budget = 0, watts = 0;
  double gpu_mtbf = -1, link_mtbf = -1, host_mtbf = -1;  ///< hours
  double checkpoint = -1, restart = -1, interval = 0;    ///< seconds
};
/// Options of `explain-measured`.
struct MeasuredOptions {
  RunOptions run;
  std::string step_time;    ///< with its unit
  std::string trace;        ///< of the PyTorch profiler; "-" = standard input
  std::optional<int> rank;  ///< that was recorded; unset: what the trace says
};
/// Options of `calibrate`.
struct CalibrateOptions {
  std::string kernels;                   ///< CSV file
  std::string gpu;                       ///< in hardware/gpus
  std::string only;                      ///< pointers that fitted blocks begin with; empty: all
  std::vector<std::string> steps;        ///< files of measured steps
  std::vector<std::string> collectives;  ///< CSV files, outputs of nccl-tests
  std::string cluster;                   ///< one's own system
  std::vector<std::string> intervals;    ///< files of measured steps
  std::string write_file;  ///< the hardware file with what was fitted, or a folder; "-" = stdout
};

/// Fits parameters of hardware files to measurements and prints them.
int calibrate(const CalibrateOptions& options);
/// Simulates a scenario at many points: 0 some point fits, 1 none does, 130 interrupted.
int sweep(const SweepOptions& options);
/// Searches the fastest layout: 0 found, 1 none fits or answers the question, 130 interrupted.
int plan(const PlanOptions& options);
/// Prints what one collective costs by size.
int collective(const CollectiveOptions& options);
/// Prints predicted against measured.
int validate(const ValidateOptions& options);
/// The scenario or recipe that the options name, with their overrides.
Scenario read_input(const RunOptions& options, Strictness strictness);
/// Resolves, validates, sizes: 0 valid and fits, 1 does not fit, 2 not valid.
int check(const RunOptions& options);
/// 0 ok; 1 runs but does not fit, or cannot finish; throws Error on bad input.
int run(const RunOptions& options);
/// Prints which single parameter explains a measured step, and a trace beside the prediction.
int explain_measured(const MeasuredOptions& options);
/// Prints how the step moves with each parameter.
int sensitivity(const RunOptions& options);
/// Prints a catalogue: models, clusters, scenarios, schedules, collectives, presets or keys.
int list(const std::string& what);
/// Prints what each of `keys` does; without any, the sections there are.
int explain(const std::vector<std::string>& keys, const std::string& json_file);
/// The keys of one section, one line each; "-" before those that are known and not simulated.
std::string key_lines(const KeySection& section);

}  // namespace stepsim::app
