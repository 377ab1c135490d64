#include "sim/study/hardware_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/files.h"

namespace stepsim {

using nlohmann::ordered_json;

HardwareFile::HardwareFile(const std::filesystem::path& path)
    : root_(std::make_shared<ordered_json>()) {
  load_document(path);  // refuses what is no file of ours, and says where
  *root_ = ordered_json::parse(read_text(path));
}

HardwareFile HardwareFile::of_system(const std::filesystem::path& path, const std::string& pointer,
                                     const DataPaths& data) {
  HardwareFile file(path);
  if (!pointer.empty())
    *file.root_ = ordered_json(file.root_->at(ordered_json::json_pointer(pointer)));
  ordered_json& gpu = file.root_->at("gpu");
  if (!gpu.is_string()) return file;
  const Located found = locate_gpu(gpu.get<std::string>(), data, path.parent_path());
  if (!found.problem.empty()) throw Error(path.string(), "/gpu", found.problem);
  gpu = *HardwareFile(found.file).root_;
  for (ordered_json* part : {&gpu, file.root_.get()}) part->erase("$schema");
  return file;
}

void HardwareFile::set(const std::string& pointer, double value, const std::string& unit,
                       const std::string& source) {
  ordered_json& at = (*root_)[ordered_json::json_pointer(pointer)];
  if (!unit.empty())
    at = fmt::format("{} {}", value, unit);
  else if (at.is_number_integer() && value == std::floor(value))
    at = static_cast<int64_t>(value);
  else
    at = value;
  if (!source.empty()) (*root_)["sources"][pointer] = source;
}

std::string HardwareFile::text() const { return root_->dump(2) + "\n"; }

}  // namespace stepsim
