#include "sim/config/bridge_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/table.h"
#include "sim/config/schema.h"

namespace stepsim {
namespace {

using nlohmann::ordered_json;

SectionRow row_of(const std::string& name, const ordered_json& section) {
  SectionRow row{.name = name, .own = false, .keys = {}};
  const auto more = section.find("additionalProperties");
  row.own = more != section.end() && *more == false;
  if (section.value("x-free-form", false)) return row;
  for (const auto& property : section.at("properties").items())
    if (!property.key().starts_with("$")) row.keys.push_back(property.key());
  return row;
}

/// The scenario itself, under the name "", and each of its sections whose keys are described.
const std::vector<SectionRow>& section_rows() {
  static const std::vector<SectionRow> rows = [] {
    const ordered_json& top = schema(SchemaFile::scenario);
    std::vector<SectionRow> list{row_of("", top)};
    for (const auto& property : top.at("properties").items())
      if (property.value().contains("properties"))
        list.push_back(row_of(property.key(), property.value()));
    return list;
  }();
  return rows;
}

}  // namespace

const SectionRow* section_row(std::string_view name) {
  const auto found = std::find_if(section_rows().begin(), section_rows().end(),
                                  [&](const SectionRow& row) { return row.name == name; });
  return found == section_rows().end() ? nullptr : &*found;
}

bool is_ignored_section(std::string_view name) {
  if (name.starts_with("$")) return false;
  const ordered_json& sections = schema(SchemaFile::scenario).at("properties");
  const auto found = sections.find(std::string(name));
  return found != sections.end() && !found->value("x-modelled", true);
}

void check_spelling(const Reader& section, const SectionRow& row) {
  constexpr size_t most_keys = 2000;  // ten times Bridge's largest section
  if (const size_t n = section.keys().size(); n > most_keys)
    section.fail_here("holds " + std::to_string(n) + " keys; the limit is " +
                      std::to_string(most_keys));
  if (!row.own && row.keys.empty()) return;  // env_vars and the like hold whatever the user sets
  const std::vector<std::string>& known = row.keys;
  for (const std::string& key : section.keys()) {
    if (key.starts_with("_") || std::find(known.begin(), known.end(), key) != known.end()) continue;
    if (key == "$schema" && row.name.empty()) continue;  // for editors
    if (row.own) section.fail(key, "unknown key" + suggestion(key, known));
    // Two edits: one slip of the pen, or two letters swapped and one lost. Short names need a
    // closer match.
    constexpr int slip = 2;
    for (const std::string& name : known)
      if (key.size() > 2 * slip && key.size() < 200 && edit_distance(key, name) <= slip)
        section.fail(key, "unknown key; did you mean '" + name + "'?");
  }
}

}  // namespace stepsim
