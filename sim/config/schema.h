// The one description of every key: scenarios/scenario.schema.json and its siblings, JSON Schema
// draft-07, whose texts are built into the library. Spell-checking, `explain` and `list keys` speak
// from it. Extension fields, which validators ignore:
//   x-unit      what the number counts          x-default  what Bridge takes when it is null
//   x-gates     when it is changed or refused   x-effect   what it changes in the task graph
//   x-aliases   other spellings                 x-source   public file that says so
//   x-modelled  false: known, not simulated     x-free-form  a section that holds any key
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace stepsim {

enum class SchemaFile { scenario, system, gpu, model };

/// The file's text as it was when the library was built.
std::string_view schema_text(SchemaFile file);
/// The same, parsed; keys in the order of the file.
const nlohmann::ordered_json& schema(SchemaFile file);

}  // namespace stepsim
