// Laws of the data: every figure of a hardware file has a source, and nothing outside of models/,
// scenarios/ and the published measurements knows a model by name.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "sim/config/document.h"

using namespace stepsim;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// Words that describe and are no figures.
bool describes_only(const std::string& key) {
  static const std::set<std::string> words{"source", "sources",     "notes",        "unknown",
                                           "name",   "description", "architecture", "release"};
  return words.contains(key) || key.starts_with("$") || key.starts_with("_");
}

/// Pointers of all figures: numbers, and text that begins with one.
void figures(const json& value, const std::string& pointer, std::vector<std::string>& found) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      if (!describes_only(key)) figures(inner, pointer + "/" + escape_pointer(key), found);
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i)
      figures(value[i], pointer + "/" + std::to_string(i), found);
  } else if (value.is_number() || (value.is_string() && std::regex_search(value.get<std::string>(),
                                                                          std::regex("^[0-9]")))) {
    found.push_back(pointer);
  }
}

/// Without what only describes: a citation may be a path with a model's name in it.
json without_annotations(const json& value) {
  if (!value.is_structured()) return value;
  json kept = value.is_array() ? json::array() : json::object();
  for (const auto& [key, inner] : value.items())
    if (value.is_array())
      kept.push_back(without_annotations(inner));
    else if (!describes_only(key))
      kept[key] = without_annotations(inner);
  return kept;
}

/// The longest prefixes count: a source at "/memory" speaks for "/memory/bandwidth".
bool has_source(const json& file, const std::string& pointer) {
  for (std::string at = pointer;; at.resize(at.rfind('/'))) {
    if (file.contains("sources") && file["sources"].contains(at)) return true;
    const json::json_pointer here(at);
    if (file.contains(here) && file[here].is_object() && file[here].contains("source")) return true;
    if (at.empty()) return false;
  }
}

std::vector<fs::path> sourced_files(const char* folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".json" && entry.path().stem().extension() != ".schema")
      files.push_back(entry.path());
  return files;
}

}  // namespace

TEST_CASE("every figure of a hardware file has a source") {
  size_t count = 0;
  for (const fs::path& path : sourced_files("hardware")) {
    const json file = json::parse(read_text(path));
    std::vector<std::string> found;
    figures(file, "", found);
    for (const std::string& pointer : found)
      CHECK_MESSAGE(has_source(file, pointer), path.string(), ": no source of ", pointer);
    count += found.size();
  }
  CHECK(count > 1000);
  CHECK_FALSE(has_source(json::parse(R"({"a": {"b": 1}, "sources": {"/a/c": "x"}})"), "/a/b"));
  CHECK(has_source(json::parse(R"({"a": {"b": 1}, "sources": {"/a": "x"}})"), "/a/b"));
}

TEST_CASE("no code and no hardware file names a model") {
  std::set<std::string> models;
  for (const char* folder : {"models", "tests/published/models"})
    for (const fs::path& path : sourced_files(folder)) models.insert(path.stem().string());
  REQUIRE(models.size() > 50);
  const auto names_one = [&](const std::string& text) {
    static const std::regex word("[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9]");
    for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it)
      if (models.contains(it->str())) return it->str();
    return std::string();
  };
  for (const char* folder : {"sim", "hardware"})
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::string text = read_text(entry.path());
      if (entry.path().extension() == ".json") text = without_annotations(json::parse(text)).dump();
      const std::string named = names_one(text);
      CHECK_MESSAGE(named.empty(), entry.path().string(), " names ", named);
    }
  CHECK(names_one("as llama3-8b does") == "llama3-8b");
}
