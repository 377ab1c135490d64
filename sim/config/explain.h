// What every key does, in words, from the schema files: the source of `explain` and `list keys`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

/// One key. Texts that do not apply are empty.
struct KeyDescription {
  std::string section;  ///< "model", ...; "" for keys at the top of a scenario
  std::string key;      ///< dotted, section included
  std::string description, type, unit, automatic, effect, source;
  std::vector<std::string> values;   ///< when it is one of a few names
  std::vector<std::string> gates;    ///< when it is silently changed or refused
  std::vector<std::string> aliases;  ///< Megatron-LM's flags, Bridge's short flags
  std::string accepted;              ///< any other value is refused in this release
  bool modelled = true;              ///< the simulation uses it
  bool repeated = false;             ///< described the same way under a key before it
};

/// A section of a scenario, or a kind of data file.
struct KeySection {
  std::string name, where, description;
  bool own = false;  ///< closed: any other key is refused
  std::vector<KeyDescription> keys;
};
const std::vector<KeySection>& key_sections();
/// nullptr when there is none of this name.
const KeySection* key_section(std::string_view name);

/// Accepts `model.tensor_model_parallel_size`, a bare `bucket_size` (all keys of that name), names
/// of environment variables, Megatron-LM's `--tensor-model-parallel-size` and short flags (`-tp`).
/// Never empty: an unknown name is an Error with the nearest ones.
std::vector<KeyDescription> explain_key(std::string_view name);

}  // namespace stepsim
