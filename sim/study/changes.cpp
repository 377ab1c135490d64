#include "sim/study/changes.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "sim/config/document.h"

namespace stepsim {

struct DocumentPair::Tree {
  nlohmann::json root;
};

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Words about a scenario, and what the readers of foreign files leave behind.
constexpr std::array<std::string_view, 11> silent_keys{
    "$schema",      "base",   "description", "measured", "name",
    "notes",        "source", "unknown",     "_launch",  "_comm_overlap_requested",
    "_not_modelled"};

/// Sections that mean nothing when they are there and empty; in others presence is a setting.
constexpr std::array<std::string_view, 11> plain_sections{
    "/model",    "/ddp",      "/dataset", "/train", "/optimizer", "/env_vars",
    "/software", "/pipeline", "/cluster", "/dist",  "/scheduler"};

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A name that is a path relative to its file keeps its meaning in mixtures of two folders.
void anchor(json& root, const char* section, const char* key, const std::string& file) {
  if (!root.contains(section) || !root[section].is_object()) return;
  const auto found = root[section].find(key);
  if (found == root[section].end() || !found->is_string()) return;
  const fs::path path = found->get<std::string>();
  const fs::path beside = fs::path(file).parent_path() / path;
  std::error_code code;
  if (path.is_absolute() || !path.has_extension() || fs::exists(path, code)) return;
  if (fs::exists(beside, code)) *found = beside.lexically_normal().string();
}

/// Null leaves a key to its default, as if it were not written.
void strip_nulls(json& value) {
  if (!value.is_object()) return;
  for (auto it = value.begin(); it != value.end();) {
    if (it->is_null()) {
      it = value.erase(it);
    } else {
      strip_nulls(*it);
      ++it;
    }
  }
}

json tree_of(const Scenario& scenario) {
  json root = json::parse(scenario.resolved_json);
  for (const std::string_view key : silent_keys) root.erase(std::string(key));
  strip_nulls(root);
  anchor(root, "model", "hf_config", scenario.file);
  anchor(root, "cluster", "system", scenario.file);
  return root;
}

const json* at(const json& root, const std::string& pointer) {
  const json::json_pointer where(pointer);
  if (!root.contains(where)) return nullptr;
  const json& value = root[where];
  return value.is_null() ? nullptr : &value;
}

/// Pointers below `place` whose values differ; an object of one side alone counts itself too.
void compare(const json* a, const json* b, const std::string& place, std::set<std::string>& found) {
  const bool tree_a = a != nullptr && a->is_object(), tree_b = b != nullptr && b->is_object();
  if ((a != nullptr && !tree_a) || (b != nullptr && !tree_b) || (!tree_a && !tree_b)) {
    const json left = a != nullptr ? *a : json(), right = b != nullptr ? *b : json();
    if (left != right) found.insert(place);
    return;
  }
  if (tree_a != tree_b && !place.empty() && !is_one_of(place, plain_sections)) found.insert(place);
  std::set<std::string> keys;
  for (const json* side : {a, b}) {
    if (side == nullptr) continue;
    for (const auto& [key, value] : side->items()) keys.insert(key);
  }
  for (const std::string& key : keys) {
    const auto child = [&](const json* side) -> const json* {
      if (side == nullptr || !side->contains(key) || side->at(key).is_null()) return nullptr;
      return &side->at(key);
    };
    compare(child(a), child(b), place + "/" + escape_pointer(key), found);
  }
}

std::string dotted(const std::string& pointer) {
  std::string key = pointer.substr(1);
  std::replace(key.begin(), key.end(), '/', '.');
  return key;
}

/// Of an object that is compared key by key, only that it is there.
bool opens(const json* value, const json* other) {
  return value != nullptr && value->is_object() && (other == nullptr || other->is_object());
}

std::string text_of(const json* value, const json* other) {
  if (value == nullptr) return {};
  if (opens(value, other)) return "{}";
  return value->dump(-1, ' ', true, json::error_handler_t::replace);
}

void put(json& root, const std::string& pointer, const json& value) {
  root[json::json_pointer(pointer)] = value;
}

void erase(json& root, const std::string& pointer) {
  const json::json_pointer where(pointer);
  if (!root.contains(where)) return;
  json& value = root[where];
  if (value.is_object() && !value.empty()) return;  // keys in it were not taken away
  root[where.parent_pointer()].erase(where.back());
}

}  // namespace

DocumentPair::DocumentPair(const Scenario& a, const Scenario& b)
    : a_(std::make_unique<Tree>(Tree{tree_of(a)})), b_(std::make_unique<Tree>(Tree{tree_of(b)})) {
  file_ = (fs::path(a.file).parent_path() / "mixture.json").string();
  std::set<std::string> found;
  compare(&a_->root, &b_->root, "", found);
  for (const std::string& pointer : found) {
    const json *left = at(a_->root, pointer), *right = at(b_->root, pointer);
    pointers_.push_back(pointer);
    changes_.push_back({dotted(pointer), text_of(left, right), text_of(right, left)});
  }
}

DocumentPair::~DocumentPair() = default;

std::string DocumentPair::mixture(const Subset& made) const {
  json root = a_->root;
  // What is inside goes before what holds it.
  for (size_t i = pointers_.size(); i-- > 0;)
    if (made[i] && at(b_->root, pointers_[i]) == nullptr) erase(root, pointers_[i]);
  for (size_t i = 0; i < pointers_.size(); ++i) {
    const json* value = made[i] ? at(b_->root, pointers_[i]) : nullptr;
    if (value == nullptr) continue;
    if (!opens(value, at(a_->root, pointers_[i])))
      put(root, pointers_[i], *value);
    else if (at(root, pointers_[i]) == nullptr)
      put(root, pointers_[i], json::object());
  }
  // A key without a section that is written is not written; nor is a section that became empty.
  for (const std::string_view section : plain_sections) {
    const auto it = root.find(std::string(section.substr(1)));
    if (it != root.end() && it->is_object() && it->empty()) root.erase(it);
  }
  return root.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string with_value(const std::string& document, const std::string& key,
                       const std::string& value) {
  json root = json::parse(document);
  std::string pointer = "/" + key;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  root[json::json_pointer(pointer)] = json::parse(value);
  return root.dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace stepsim
