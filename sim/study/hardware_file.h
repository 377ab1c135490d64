// A hardware file in which numbers are replaced; everything else stays as it is written.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/config/read.h"

namespace stepsim {

class HardwareFile {
 public:
  explicit HardwareFile(const std::filesystem::path& path);
  /// A system with its GPU written out in it, so that one file holds all that was fitted.
  static HardwareFile of_system(const std::filesystem::path& path, const std::string& pointer,
                                const DataPaths& data);

  /// A number, or a quantity where `unit` is not empty. `source`: said in `sources`; empty: what
  /// speaks for it there goes on to.
  void set(const std::string& pointer, double value, const std::string& unit,
           const std::string& source);
  std::string text() const;

 private:
  std::shared_ptr<nlohmann::ordered_json> root_;
};

}  // namespace stepsim
