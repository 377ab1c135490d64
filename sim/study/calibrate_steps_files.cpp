// Hardware files with what was fitted to steps.
#include <fmt/format.h>

#include "sim/study/calibrate_steps.h"
#include "sim/study/hardware_file.h"

namespace stepsim {

std::map<std::string, std::string> fitted_files(const StepCalibration& calibration,
                                                const DataPaths& data) {
  std::string files;
  for (const std::string& file : calibration.files) files += (files.empty() ? "" : ", ") + file;
  std::map<std::string, HardwareFile> changed;
  for (const FittedStepParameter& p : calibration.parameters)
    for (const StepPlace& place : p.parameter.places) {
      HardwareFile& file =
          changed.try_emplace(place.file, data.root / "hardware" / place.file).first->second;
      // What speaks for a whole stack goes on to.
      file.set(place.pointer, p.after, std::string(p.parameter.row->unit),
               place.device.empty()
                   ? std::string()
                   : fmt::format("fit: +- {:.2g}, {} of the steps in {} feel it (stepsim calibrate "
                                 "--steps)",
                                 p.standard_error, p.steps, files));
    }
  std::map<std::string, std::string> texts;
  for (const auto& [name, file] : changed) texts[name] = file.text();
  return texts;
}

}  // namespace stepsim
