// `stepsim calibrate`: parameters of hardware files fitted to measurements.
#include "sim/study/calibrate.h"

#include <filesystem>

#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/study/calibrate_intervals.h"
#include "sim/study/calibrate_system.h"

namespace stepsim::app {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_flag(const std::string& flag, const std::string& message) {
  throw Error(std::string(command_line_name), flag, message);
}

void keep_inputs(const CalibrateOptions& options) {
  std::vector<std::string> inputs = options.steps;
  inputs.insert(inputs.end(), options.intervals.begin(), options.intervals.end());
  inputs.insert(inputs.end(), options.collectives.begin(), options.collectives.end());
  inputs.push_back(options.kernels);
  for (const std::string& input : inputs)
    if (!input.empty() && !options.write_file.empty() && same_file(options.write_file, input))
      refuse_flag("/--write", "would overwrite the rows in '" + printable(input) + "'");
}

/// The file, then the page, unless the file is the page.
void write_both(const std::string& file, const std::string& file_text, const std::string& page) {
  Output written(file);
  if (written.asked()) {
    written.stream() << file_text;
    written.close();
  }
  if (!written.standard()) write_all("-", page);
}

void calibrate_kernels(const CalibrateOptions& options) {
  if (options.gpu.empty()) refuse_flag("/--gpu", "is required: a GPU of hardware/gpus");
  const Calibration result =
      stepsim::calibrate(options.kernels, options.gpu, options.only, find_data());
  write_both(options.write_file, result.file_text, calibration_text(result));
}

/// The shipped parameters: many files, so that they are written into a folder.
void calibrate_shipped(const CalibrateOptions& options) {
  const DataPaths data = find_data();
  std::error_code unreadable;
  if (!options.write_file.empty() && !fs::is_directory(options.write_file, unreadable))
    refuse_flag("/--write",
                "must be a folder that is there, as hardware: several files change; got '" +
                    printable(options.write_file) + "'");
  const StepCalibration result =
      calibrate_steps(read_samples(options.steps, data), shipped_step_parameters(data));
  if (!options.write_file.empty())
    for (const auto& [name, text] : fitted_files(result, data)) {
      const fs::path file = fs::path(options.write_file) / name;
      fs::create_directories(file.parent_path(), unreadable);
      write_all(file.string(), text);
    }
  write_all("-", calibration_text(result));
}

void calibrate_own(const CalibrateOptions& options) {
  if (options.collectives.empty() && options.steps.empty())
    refuse_flag("/--collectives",
                "is required with --cluster: outputs of nccl-tests or CSV files; or "
                "--steps, measured steps");
  const SystemCalibration result =
      calibrate_system(options.cluster, options.collectives, options.steps, find_data());
  std::string page;
  if (result.links) page += calibration_text(*result.links);
  if (result.links && result.steps) page += "\n";
  if (result.steps) page += calibration_text(*result.steps);
  write_both(options.write_file, result.file_text, page);
}

/// Needs kernels and collectives too, for what single kinds leave open.
void calibrate_doubts(const CalibrateOptions& options) {
  if (options.kernels.empty() || options.collectives.empty())
    refuse_flag(options.kernels.empty() ? "/--kernels" : "/--collectives",
                "is required with --intervals: measured kernels and collectives");
  const IntervalCalibration result =
      calibrate_intervals(options.intervals, options.kernels, options.collectives, find_data());
  write_both(options.write_file, result.file_text, calibration_text(result));
}

}  // namespace

int calibrate(const CalibrateOptions& options) {
  keep_inputs(options);
  const bool intervals = !options.intervals.empty();
  if (!options.kernels.empty() && !intervals &&
      !(options.steps.empty() && options.collectives.empty()))
    refuse_flag("/--kernels", "cannot be combined with --steps or --collectives");
  if (intervals)
    calibrate_doubts(options);
  else if (!options.kernels.empty())
    calibrate_kernels(options);
  else if (!options.cluster.empty())
    calibrate_own(options);
  else if (!options.collectives.empty())
    refuse_flag("/--cluster",
                "is required: the system whose links were measured (stepsim list clusters), "
                "or a file");
  else if (!options.steps.empty())
    calibrate_shipped(options);
  else
    refuse_flag("/--kernels",
                "is required: measured kernels and --gpu; or --cluster with --collectives "
                "or --steps, one's own system; or --steps, the shipped parameters");
  return 0;
}

}  // namespace stepsim::app
