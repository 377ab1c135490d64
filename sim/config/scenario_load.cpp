#include "sim/config/scenario_load.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/config/bridge_keys.h"
#include "sim/config/import.h"

namespace stepsim {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& pointer, const std::string& message) {
  throw Error(std::string(command_line_name), pointer, message);
}

Document with_bases(Document document, std::vector<std::string> chain) {
  const std::filesystem::path file = document.file;
  std::error_code code;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(file, code);
  chain.push_back(code ? document.file : canonical.string());
  if (!document.root->is_object())
    throw Error(document.file, "",
                "must be an object; got " + std::string(document.root->type_name()));
  document.root->erase("$schema");  // for editors, and relative to the file it stands in
  const auto base = document.root->find("base");
  if (base == document.root->end() || base->is_null()) return document;
  if (!base->is_string())
    throw Error(document.file, "/base",
                "must be a path to another scenario; got " + std::string(base->type_name()));
  const std::filesystem::path path = file.parent_path() / base->get<std::string>();
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, code);
  if (std::find(chain.begin(), chain.end(), target.string()) != chain.end())
    throw Error(document.file, "/base",
                "a cycle of bases through '" + printable(base->get<std::string>()) + "'");
  if (!std::filesystem::exists(path, code))
    throw Error(document.file, "/base", "no such file: '" + printable(path.string()) + "'");
  constexpr size_t deepest = 32;
  if (chain.size() > deepest)
    throw Error(document.file, "/base", "more than 32 bases on top of each other");
  document.root->erase(base);
  Document below = with_bases(load_any(path), std::move(chain));
  // What the base says keeps the base's name in messages; the rest belongs to the file on top.
  below.origins.try_emplace("", below.file);
  for (const auto& [key, value] : below.root->items())
    below.origins.try_emplace("/" + escape_pointer(key), below.file);
  below.origins[""] = document.file;
  below.file = document.file;
  // A recipe's name in the base and single fields on top belong together.
  json& root = *below.root;
  if (root.contains("mixed_precision") && root["mixed_precision"].is_string() &&
      document.root->value("mixed_precision", json()).is_object())
    root["mixed_precision"] = {{"recipe", root["mixed_precision"]}};
  merge(below, document);
  return below;
}

json value_of(const std::string& text);

/// Hydra's lists hold bare words: [core_attn, mlp].
json list_of(std::string_view inside) {
  json list = json::array();
  while (!inside.empty()) {
    const size_t end = std::min(inside.find(','), inside.size());
    std::string item(inside.substr(0, end));
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    list.push_back(value_of(item));
    inside.remove_prefix(std::min(end + 1, inside.size()));
  }
  return list;
}

json value_of(const std::string& text) {
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "None" || text == "null") return nullptr;
  try {
    return *parse_document(text, std::string(command_line_name)).root;
  } catch (const Error&) {
    const bool flat =
        text.find_first_of("{}\"'") == std::string::npos && text.find('[', 1) == std::string::npos;
    if (text.starts_with('[') && text.ends_with(']') && text.size() > 2 && flat)
      return list_of(std::string_view(text).substr(1, text.size() - 2));
    // Brackets and quotes announce JSON; anything else is a bare word.
    if (text.starts_with('{') || text.starts_with('[') || text.starts_with('"')) throw;
    return text;
  }
}

/// Versions are text: 2.20 is not 2.2.
json version_of(const std::string& text, const std::string& pointer) {
  if (text == "None" || text == "null") return nullptr;
  if (text.starts_with('[') || text.starts_with('{'))
    refuse(pointer, "must be text; got " + printable(text));
  return text.starts_with('"') ? value_of(text) : json(text);
}

}  // namespace

Document with_bases(Document document) { return with_bases(std::move(document), {}); }

void apply_overrides(Document& document, std::span<const std::string> overrides) {
  bool nodes = false, gpus = false;
  for (const std::string& word : overrides) {
    std::string text = word;
    const char sign = text.empty() ? ' ' : text.front();
    if (sign == '+' || sign == '~') text.erase(0, text.starts_with("++") ? 2 : 1);
    const size_t equals = text.find('=');
    std::string path = text.substr(0, equals);
    if ((equals == std::string::npos && sign != '~') || path.empty() || path.front() == '.' ||
        path.back() == '.' || path.find("..") != std::string::npos)
      refuse("", "expected section.key=value; got '" + printable(word) + "'");
    if (path.find('/') != std::string::npos || path.find('~') != std::string::npos ||
        std::count(path.begin(), path.end(), '.') > 8)
      refuse("", "not a dotted key: '" + printable(path) + "'");
    std::replace(path.begin(), path.end(), '.', '/');
    const std::string pointer = "/" + path;
    // A recipe by name and its fields are the same section.
    json& root = *document.root;
    if (pointer.starts_with("/mixed_precision/") && root.contains("mixed_precision") &&
        root["mixed_precision"].is_string())
      root["mixed_precision"] = {{"recipe", root["mixed_precision"]}};
    nodes |= pointer == "/cluster/nodes";
    gpus |= pointer == "/cluster/gpus";
    if (pointer == "/base") refuse(pointer, "a base can only be named in a file");
    if (sign != '~' && equals + 1 == text.size())
      refuse(pointer, "expected a value behind '='; null leaves the key to its default");
    json value;
    if (sign != '~') {
      const std::string written = text.substr(equals + 1);
      value = pointer.starts_with("/software/") ? version_of(written, pointer) : value_of(written);
    }
    set_value(document, pointer, value);
  }
  // A number of GPUs written for another number of nodes no longer holds.
  if (nodes && !gpus && (*document.root)["cluster"].is_object())
    (*document.root)["cluster"].erase("gpus");
}

void apply_cluster(Document& document, const std::string& cluster) {
  if (cluster.empty()) return;
  const size_t colon = cluster.rfind(':');
  const std::string name = cluster.substr(0, colon);
  if (name.empty())
    refuse("/cluster/system", "expected NAME or NAME:NODES; got '" + printable(cluster) + "'");
  set_value(document, "/cluster/system", name);
  if (colon == std::string::npos) return;
  const std::string nodes = cluster.substr(colon + 1);
  if (nodes.empty() || nodes.size() > 9 ||
      nodes.find_first_not_of("0123456789") != std::string::npos)
    refuse("/cluster/nodes", "must be an integer from 1; got '" + printable(nodes) + "'");
  set_value(document, "/cluster/nodes", std::stoi(nodes));
  (*document.root)["cluster"].erase("gpus");
}

void apply_launch(Document& document) {
  json& root = *document.root;
  const auto launch = root.find("_launch");
  if (launch == root.end() || !launch->is_object()) return;
  const auto cluster = root.find("cluster");
  if (cluster == root.end() || !cluster->is_object() || cluster->contains("nodes") ||
      cluster->contains("gpus"))
    return;
  const auto count = [&](const char* key) { return launch->value(key, int64_t{0}); };
  const int64_t gpus = count("gpus") > 0 ? count("gpus") : count("gpus_per_node") * count("nodes");
  if (gpus > 0)
    (*cluster)["gpus"] = gpus;
  else if (count("nodes") > 0)
    (*cluster)["nodes"] = count("nodes");
}

}  // namespace stepsim
