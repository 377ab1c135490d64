#include "sim/config/files.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "sim/base/table.h"
#include "sim/config/reader.h"

namespace stepsim {
namespace {

namespace fs = std::filesystem;

/// What may be left out behind a recipe's name; the whole name comes first.
constexpr std::array<const char*, 3> recipe_endings{"", "_config", "_pretrain_config"};

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json") || name == "." ||
         name == "..";
}

bool is_there(const fs::path& path) {
  std::error_code code;
  return fs::exists(path, code);
}

bool is_folder(const fs::path& path) {
  std::error_code code;
  return fs::is_directory(path, code);
}

std::vector<std::string> stems(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    if (it->path().extension() == ".json" && it->path().stem().extension() != ".schema")
      names.push_back(it->path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Located as_path(const std::string& name, const fs::path& beside) {
  fs::path path = name;
  if (!is_there(path) && path.is_relative() && !beside.empty() && is_there(beside / path))
    path = beside / path;
  if (!is_there(path)) return {{}, {}, "no such file: '" + printable(name) + "'"};
  return {path, {}, {}};
}

Located as_name(const std::string& what, const std::string& name,
                std::span<const fs::path> folders) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders) {
    if (is_there(folder / (name + ".json"))) return {folder / (name + ".json"), {}, {}};
    const std::vector<std::string> more = stems(folder);
    names.insert(names.end(), more.begin(), more.end());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return {{}, {}, "unknown " + what + " '" + printable(name) + "'" + suggestion(name, names)};
}

/// Name and first sentence of every JSON file of a folder; files that do not read are listed by
/// name alone.
std::vector<CatalogueRow> catalogue(const fs::path& folder,
                                    std::span<const std::string> description_keys) {
  std::vector<CatalogueRow> rows;
  for (const std::string& name : stems(folder)) {
    CatalogueRow row{name, {}};
    try {
      const Document document = load_document(folder / (name + ".json"));
      const Reader top(document, "");
      for (const std::string& key : description_keys)
        if (row.description.empty()) row.description = top.string(key, "");
    } catch (const Error&) {
      row.description = "(does not read)";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

DataPaths find_data() {
  if (const char* set = std::getenv("STEPSIM_DATA"); set != nullptr && *set != '\0') {
    if (!is_folder(set))
      throw Error("STEPSIM_DATA", "", "is not a directory: '" + printable(set) + "'");
    return {.root = set, .more_models = {}, .more_systems = {}};
  }
  if (is_folder("models") && is_folder("hardware"))
    return {.root = ".", .more_models = {}, .more_systems = {}};
  return {.root = STEPSIM_SOURCE_DIR, .more_models = {}, .more_systems = {}};
}

Located locate_model(const std::string& name, const DataPaths& data, const fs::path& beside) {
  if (is_path(name) || name.empty()) {
    Located found = as_path(name, beside);
    // A Hugging Face checkout is a directory that holds config.json.
    if (found.problem.empty() && is_folder(found.file)) {
      found.file /= "config.json";
      if (!is_there(found.file))
        found.problem = "the directory '" + printable(name) + "' holds no config.json";
    }
    return found;
  }
  std::vector<fs::path> folders{data.root / "models"};
  folders.insert(folders.end(), data.more_models.begin(), data.more_models.end());
  return as_name("model", name, folders);
}

Located locate_system(const std::string& name, const DataPaths& data, const fs::path& beside) {
  if (is_path(name) || name.empty()) return as_path(name, beside);
  std::vector<fs::path> folders{data.root / "hardware"};
  for (const fs::path& more : data.more_systems) {
    // One file may hold many systems, by name.
    if (is_folder(more))
      folders.push_back(more);
    else if (const Document many = load_document(more);
             many.root->is_object() && many.root->contains(name))
      if (!is_there(folders.front() / (name + ".json")))
        return {more, "/" + escape_pointer(name), {}};
  }
  return as_name("system", name, folders);
}

Located locate_gpu(const std::string& name, const DataPaths& data, const fs::path& beside) {
  if (is_path(name) || name.empty()) return as_path(name, beside);
  std::vector<fs::path> folders{data.root / "hardware" / "gpus"};
  for (const fs::path& more : data.more_systems)
    folders.push_back((is_folder(more) ? more : more.parent_path()) / "gpus");
  if (!beside.empty()) folders.push_back(beside / "gpus");
  return as_name("GPU", name, folders);
}

std::optional<fs::path> locate_recipe(const std::string& name, const DataPaths& data) {
  if (name.empty() || is_path(name)) return std::nullopt;
  const fs::path folder = data.root / "scenarios" / "recipes";
  for (const char* ending : recipe_endings)
    if (fs::path file = folder / (name + ending + ".json"); is_there(file)) return file;
  // A model's stem without its size: the first recipe of the library that goes on from there.
  for (const std::string& full : stems(folder))
    if (full.starts_with(name + "_") && full.ends_with("_pretrain_config"))
      return folder / (full + ".json");
  return std::nullopt;
}

fs::path find_recipe(const std::string& name, const DataPaths& data) {
  if (std::optional<fs::path> file = locate_recipe(name, data)) return *file;
  // The nearest of all the forms that would have been understood.
  const std::vector<std::string> names = stems(data.root / "scenarios" / "recipes");
  std::vector<std::string> forms;
  for (const std::string& full : names)
    for (const std::string_view ending : recipe_endings)
      if (full.ends_with(ending)) forms.push_back(full.substr(0, full.size() - ending.size()));
  const bool near = !nearest(name, forms).empty();
  throw Error(std::string(command_line_name), "/recipe",
              "unknown recipe '" + printable(name) + "'" + suggestion(name, near ? forms : names));
}

std::vector<CatalogueRow> list_models(const DataPaths& data) {
  static const std::vector<std::string> keys{"description", "source"};
  return catalogue(data.root / "models", keys);
}

std::vector<CatalogueRow> list_clusters(const DataPaths& data) {
  static const std::vector<std::string> keys{"description", "notes"};
  return catalogue(data.root / "hardware", keys);
}

std::vector<CatalogueRow> list_recipes(const DataPaths& data) {
  static const std::vector<std::string> keys{"description", "source"};
  return catalogue(data.root / "scenarios" / "recipes", keys);
}

std::vector<CatalogueRow> list_scenarios(const DataPaths& data) {
  static const std::vector<std::string> keys{"description", "name", "source"};
  return catalogue(data.root / "scenarios", keys);
}

}  // namespace stepsim
