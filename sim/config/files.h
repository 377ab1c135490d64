// Where a name in an input leads: models/NAME.json, hardware/NAME.json, hardware/gpus/NAME.json, or
// a path as written.
#pragma once

#include <filesystem>
#include <optional>
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

/// A recipe is a scenario in scenarios/recipes/ that is called like the Megatron-Bridge function it
/// follows. `name`: that function's name, with or without `_config` or `_pretrain_config`.
std::optional<std::filesystem::path> locate_recipe(const std::string& name, const DataPaths& data);
/// The same; an unknown name is an Error with the nearest one.
std::filesystem::path find_recipe(const std::string& name, const DataPaths& data);
std::vector<CatalogueRow> list_recipes(const DataPaths& data);

}  // namespace stepsim
