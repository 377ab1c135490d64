#include "sim/config/explain.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/config/document.h"
#include "sim/config/resolve.h"
#include "sim/config/schema.h"

namespace stepsim {
namespace {

using nlohmann::ordered_json;

/// `property` with what its $ref says filled in; `ref` is set to that reference.
ordered_json resolved(const ordered_json& file, ordered_json property, std::string& ref) {
  const auto all = property.find("allOf");
  if (all != property.end() && all->front().contains("$ref"))
    ref = all->front().at("$ref").get<std::string>();
  else
    ref = property.value("$ref", "");
  if (ref.empty()) return property;
  const ordered_json& target = file.at(ordered_json::json_pointer(ref.substr(1)));
  for (const auto& field : target.items())
    if (!property.contains(field.key())) property[field.key()] = field.value();
  return property;
}

std::vector<std::string> texts(const ordered_json& property, const char* field) {
  std::vector<std::string> list;
  const auto found = property.find(field);
  if (found == property.end()) return list;
  for (const ordered_json& item : *found)
    if (item.is_string()) list.push_back(item.get<std::string>());
  return list;
}

std::string type_text(const ordered_json& property) {
  const auto found = property.find("type");
  if (found == property.end()) return "any";
  if (found->is_string()) return found->get<std::string>();
  std::string text;
  for (size_t i = 0; i < found->size(); ++i)
    text += (i == 0 ? "" : i + 1 < found->size() ? ", " : " or ") + (*found)[i].get<std::string>();
  return text;
}

/// Lists the keys of one object and, depth first, of the objects in it.
class Walk {
 public:
  Walk(const ordered_json& file, KeySection& section) : file_(file), section_(section) {}

  void add(const ordered_json& properties, const std::string& prefix, bool repeated) {
    for (const auto& item : properties.items()) {
      if (item.key().starts_with("$")) continue;
      std::string ref;
      const ordered_json property = resolved(file_, item.value(), ref);
      const std::string key = prefix.empty() ? item.key() : prefix + "." + item.key();
      section_.keys.push_back(described(property, key, item.key()));
      section_.keys.back().repeated = repeated;
      const bool again = repeated || (!ref.empty() && !seen_.insert(ref).second);
      std::string item_ref;
      const auto items = property.find("items");
      const ordered_json inner =
          items == property.end() ? property : resolved(file_, *items, item_ref);
      if (inner.contains("properties")) add(inner.at("properties"), key, again);
    }
  }

 private:
  KeyDescription described(const ordered_json& property, const std::string& key,
                           const std::string& bare) const {
    KeyDescription d;
    d.section = section_.name;
    d.key = key;
    d.description = property.value("description", "");
    d.type = type_text(property);
    d.unit = property.value("x-unit", "");
    d.automatic = property.value("x-default", "");
    d.effect = property.value("x-effect", "");
    d.source = property.value("x-source", "");
    d.values = texts(property, "enum");
    d.gates = texts(property, "x-gates");
    d.aliases = texts(property, "x-aliases");
    d.modelled = property.value("x-modelled", true);
    d.accepted = accepted_values(section_.name, bare);
    return d;
  }

  const ordered_json& file_;
  KeySection& section_;
  std::set<std::string> seen_;
};

std::vector<KeySection> read_sections() {
  std::vector<KeySection> list;
  const ordered_json& scenario = schema(SchemaFile::scenario);
  ordered_json plain = ordered_json::object();
  const auto closed = [](const ordered_json& object) {
    return object.contains("additionalProperties") && object.at("additionalProperties") == false;
  };
  for (const auto& item : scenario.at("properties").items())
    if (!item.value().contains("properties")) plain[item.key()] = item.value();
  list.push_back({"", "scenarios/*.json", "At the top of a scenario.", true, {}});
  Walk(scenario, list.back()).add(plain, "", false);
  for (const auto& item : scenario.at("properties").items()) {
    const ordered_json& section = item.value();
    if (!section.contains("properties")) continue;
    list.push_back({item.key(),
                    "scenarios/*.json",
                    section.at("description").get<std::string>(),
                    closed(section),
                    {}});
    Walk(scenario, list.back()).add(section.at("properties"), item.key(), false);
  }
  for (const auto& [file, name, where] :
       {std::tuple{SchemaFile::system, "system", "hardware/*.json"},
        std::tuple{SchemaFile::gpu, "gpu", "hardware/gpus/*.json"},
        std::tuple{SchemaFile::model, "config", "models/*.json"}}) {
    const ordered_json& object = schema(file);
    list.push_back({name, where, object.at("description").get<std::string>(), closed(object), {}});
    Walk(object, list.back()).add(object.at("properties"), name, false);
  }
  return list;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::string_view bare(std::string_view dotted) {
  return dotted.substr(dotted.rfind('.') + 1);  // npos + 1 = 0
}

/// Keys that are `name`, else all that end with it.
std::vector<KeyDescription> named(const std::string& name) {
  std::vector<KeyDescription> found;
  for (const KeySection& section : key_sections())
    for (const KeyDescription& d : section.keys)
      if (d.key == name) return {d};
  for (const KeySection& section : key_sections())
    for (const KeyDescription& d : section.keys)
      if (d.key.ends_with("." + name)) found.push_back(d);
  return found;
}

/// Keys of a scenario that have this flag, and those of the same name in other sections.
std::vector<KeyDescription> flagged(const std::string& flag) {
  std::vector<KeyDescription> found;
  for (const KeySection& section : key_sections())
    for (const KeyDescription& d : section.keys) {
      if (std::find(d.aliases.begin(), d.aliases.end(), flag) == d.aliases.end()) continue;
      for (KeyDescription& same : named(std::string(bare(d.key))))
        if (key_section(same.section)->where == section.where) found.push_back(std::move(same));
      return found;
    }
  return found;
}

[[noreturn]] void refuse(const std::string& name) {
  std::vector<std::pair<int, std::string>> near;  // distance, key
  for (const KeySection& section : key_sections())
    for (const KeyDescription& d : section.keys) {
      if (d.repeated) continue;
      const std::string_view last = bare(d.key);
      const bool inside = name.size() > 2 && d.key.find(name) != std::string::npos;
      const int distance = std::min(edit_distance(name, d.key), edit_distance(bare(name), last));
      const int most = std::max(2, static_cast<int>(bare(name).size()) / 3);
      if (inside || distance <= most) near.emplace_back(inside ? -1 : distance, d.key);
    }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  constexpr size_t most = 5;
  std::string message = "unknown key '" + printable(name, 60) + "'";
  for (size_t i = 0; i < near.size() && i < most; ++i)
    message += (i == 0 ? "; near it: " : ", ") + near[i].second;
  if (near.size() > most) message += ", ...";
  if (near.empty()) message += "; `stepsim list keys` names them all";
  throw Error(std::string(command_line_name), "/explain", message);
}

}  // namespace

const std::vector<KeySection>& key_sections() {
  static const std::vector<KeySection> sections = read_sections();
  return sections;
}

const KeySection* key_section(std::string_view name) {
  const auto found = std::find_if(key_sections().begin(), key_sections().end(),
                                  [&](const KeySection& s) { return s.name == name; });
  return found == key_sections().end() ? nullptr : &*found;
}

std::vector<KeyDescription> explain_key(std::string_view text) {
  constexpr size_t longest = 200;
  std::string name(text.substr(0, std::min(text.find('='), longest)));
  std::vector<KeyDescription> found;
  if (name.starts_with("-")) {
    found = flagged(name);
    if (found.empty()) found = flagged(lower(name));
    name.erase(0, name.find_first_not_of('-'));
  }
  if (name.empty()) refuse(std::string(text.substr(0, longest)));
  if (found.empty()) found = named(name);
  std::replace(name.begin(), name.end(), '-', '_');
  // New-style Bridge files nest the model's fields one level deeper.
  if (name.starts_with("model.transformer.")) name.erase(6, 12);
  if (found.empty()) found = named(name);
  if (found.empty()) found = flagged("-" + lower(name));
  for (const char* negation : {"no_", "disable_"})
    if (found.empty() && name.starts_with(negation))
      found = named(name.substr(std::string_view(negation).size()));
  if (found.empty()) refuse(name);
  return found;
}

}  // namespace stepsim
