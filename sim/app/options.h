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
  std::string html_file;    ///< the same as a page, with all rows
  std::string json_file;
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

/// Options of `lesson`.
struct LessonOptions {
  int number = 0;                      ///< 0: list them
  std::string guess;                   ///< letter of a choice; empty: only ask
  std::vector<std::string> overrides;  ///< a case of the user's own
};

/// Prints the lessons, one question, or its answer.
int lesson(const LessonOptions& options);
/// Fits parameters of hardware files to measurements and prints them.
int calibrate(const CalibrateOptions& options);
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
