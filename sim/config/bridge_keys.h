// The sections of a scenario and the keys each knows, from scenarios/scenario.schema.json: ours are
// closed, Megatron-Bridge's are open but spell-checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.h"

namespace stepsim {

/// Keys of one section, read here or not. In an `own` section anything else is refused; in one of
/// Bridge's an unknown key is refused only when it is a slip of the pen away from a known one.
struct SectionRow {
  std::string name;
  bool own;
  std::vector<std::string> keys;  ///< empty: holds any key
};
/// nullptr for a section that is Bridge's but has nothing to do with time (checkpoint, logger,
/// ...).
const SectionRow* section_row(std::string_view name);

/// Refuses misspelt keys of one section.
void check_spelling(const Reader& section, const SectionRow& row);
/// Sections of Bridge's ConfigContainer that are accepted and listed as not modelled.
bool is_ignored_section(std::string_view name);

}  // namespace stepsim
