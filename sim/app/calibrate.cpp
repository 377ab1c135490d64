// `stepsim calibrate`: parameters of a GPU fitted to measured kernels.
#include "sim/study/calibrate.h"

#include "sim/app/options.h"
#include "sim/app/output.h"
#include "sim/base/error.h"
#include "sim/config/document.h"

namespace stepsim::app {

int calibrate(const CalibrateOptions& options) {
  if (options.gpu.empty() || options.kernels.empty())
    throw Error(std::string(command_line_name), options.gpu.empty() ? "/--gpu" : "/--kernels",
                "is required: a GPU of hardware/gpus, and a CSV file of measured kernels");
  if (!options.write_file.empty() && same_file(options.write_file, options.kernels))
    throw Error(std::string(command_line_name), "/--write",
                "would overwrite the rows in '" + printable(options.kernels) + "'");
  const Calibration result =
      stepsim::calibrate(options.kernels, options.gpu, options.only, find_data());
  Output written(options.write_file);
  if (written.asked()) {
    written.stream() << result.file_text;
    written.close();
  }
  if (!written.standard()) write_all("-", calibration_text(result));
  return 0;
}

}  // namespace stepsim::app
