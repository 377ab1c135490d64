#include "sim/config/schema.h"

#include <array>
#include <nlohmann/json.hpp>

namespace stepsim {

const nlohmann::ordered_json& schema(SchemaFile file) {
  static const auto parsed = [] {
    std::array<nlohmann::ordered_json, 4> all;
    for (const SchemaFile each :
         {SchemaFile::scenario, SchemaFile::system, SchemaFile::gpu, SchemaFile::model})
      all[static_cast<size_t>(each)] = nlohmann::ordered_json::parse(schema_text(each));
    return all;
  }();
  return parsed[static_cast<size_t>(file)];
}

}  // namespace stepsim
