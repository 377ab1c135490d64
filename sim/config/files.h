// Where a name in an input leads: models/NAME.json, hardware/NAME.json, hardware/gpus/NAME.json, or
// a path as written.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "sim/config/read.h"

namespace stepsim {

/// A file (and the place in it) that a name stands for, or why there is none (`problem` empty =
/// found).
struct Located {
  std::filesystem::path file;
  std::string pointer;  ///< inside the file; "" = the whole of it
  std::string problem;
};

/// `beside`: folder of the file that used the name; relative paths are tried there after the
/// current directory.
Located locate_model(const std::string& name, const DataPaths& data,
                     const std::filesystem::path& beside = {});
Located locate_system(const std::string& name, const DataPaths& data,
                      const std::filesystem::path& beside = {});
Located locate_gpu(const std::string& name, const DataPaths& data,
                   const std::filesystem::path& beside = {});

}  // namespace stepsim
