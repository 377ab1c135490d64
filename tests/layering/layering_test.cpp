// The tree's own laws: who may include whom, how long a file may be, who may print.
//
// Law 1: a file includes only its own layer and the places its row of `layers` names (the table
// below
//        is the block diagram in sim/README.md). Layers of equal rank never include each other.
// Law 2: heavy libraries stay in .cpp files; the command-line parser stays in app.
// Law 3: only app prints, exits or aborts; the library throws Error.
// Law 4: sources are ASCII; headers hold at most 120 lines, .cpp files and the pages' scripts at
//        most 400.
// Every law is first tried on a made-up file that breaks it, then on the tree.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Complaints = std::vector<std::string>;

/// A folder of sim/ and what it may include: path prefixes, so a single header can be named.
struct LayerRow {
  std::string_view name;
  int rank;
  std::array<std::string_view, 10> may_include;
};
constexpr std::array<LayerRow, 12> layers{{
    {"base", 0, {}},
    {"engine", 1, {"base/"}},
    {"config", 1, {"base/"}},
    {"cost", 2, {"base/", "config/"}},
    {"network", 2, {"base/", "config/"}},
    {"parallel", 2, {"base/", "config/"}},
    {"lower", 3, {"base/", "engine/", "config/", "cost/", "network/", "parallel/"}},
    // Of lowering the report sees the result and the labels, never the way there.
    {"report",
     4,
     {"base/", "engine/", "config/", "cost/", "parallel/mesh.h", "lower/label.h", "lower/lowered.h",
      "lower/inventory.h"}},
    {"simulate",
     5,
     {"base/", "engine/", "config/", "cost/", "network/", "parallel/", "lower/", "report/"}},
    {"study",
     6,
     {"base/", "engine/", "config/", "cost/", "network/", "parallel/", "lower/", "report/",
      "simulate."}},
    {"app",
     7,
     {"base/", "engine/", "config/", "cost/", "network/", "parallel/", "lower/", "report/",
      "simulate.", "study/"}},
    {"lab",
     7,
     {"base/", "engine/", "config/", "cost/", "network/", "parallel/", "lower/", "report/",
      "simulate."}},
}};

/// "sim/engine/engine.h" -> "engine"; "sim/simulate.cpp" -> "simulate".
std::string_view layer_of(std::string_view path) {
  path.remove_prefix(std::min(path.size(), std::string_view("sim/").size()));
  return path.substr(0, path.find_first_of("/."));
}

const LayerRow* find_layer(std::string_view name) {
  const auto row =
      std::find_if(layers.begin(), layers.end(), [&](const LayerRow& r) { return r.name == name; });
  return row == layers.end() ? nullptr : &*row;
}

bool may_include(const LayerRow& layer, std::string_view path) {
  if (!path.starts_with("sim/")) return false;
  if (layer_of(path) == layer.name) return true;
  path.remove_prefix(4);
  return std::any_of(
      layer.may_include.begin(), layer.may_include.end(),
      [&](std::string_view place) { return !place.empty() && path.starts_with(place); });
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The text with comments, strings and character literals blanked; line breaks stay.
std::string code_of(std::string_view text) {
  std::string code(text);
  size_t i = 0;
  const auto blank_until = [&](std::string_view end, bool escapes) {
    while (i < text.size() && text.substr(i, end.size()) != end) {
      const size_t step = escapes && text[i] == '\\' ? 2 : 1;
      for (size_t k = i; k < std::min(i + step, text.size()); ++k) {
        if (text[k] != '\n') code[k] = ' ';
      }
      i += step;
    }
    i += end.size();
  };
  while (i < text.size()) {
    const std::string_view rest = text.substr(i);
    const bool digit_separator = rest[0] == '\'' && i > 0 && is_word(text[i - 1]);
    if (rest.starts_with("//")) {
      blank_until("\n", false);
    } else if (rest.starts_with("/*")) {
      blank_until("*/", false);
    } else if (rest.starts_with("R\"") && (i == 0 || !is_word(text[i - 1]))) {
      const std::string_view tag = rest.substr(2, rest.find('(') - 2);
      i += 3 + tag.size();
      blank_until(")" + std::string(tag) + "\"", false);
    } else if (rest[0] == '"' || (rest[0] == '\'' && !digit_separator)) {
      const char quote = rest[0];
      ++i;
      blank_until(std::string_view(&quote, 1), true);
    } else {
      ++i;
    }
  }
  return code;
}

/// Whether `word` stands in the code as a whole word; one that ends in "(" only as a call.
bool uses(std::string_view code, std::string_view word) {
  const bool call = word.ends_with('(');
  const std::string_view name = word.substr(0, word.size() - (call ? 1 : 0));
  for (size_t at = code.find(name); at != code.npos; at = code.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at > 0 && is_word(code[at - 1])) || (end < code.size() && is_word(code[end]))) continue;
    if (!call) return true;
    const size_t next = code.find_first_not_of(" \n", end);
    const bool member = at > 0 && (code[at - 1] == '.' || code.substr(0, at).ends_with("->"));
    if (!member && next != code.npos && code[next] == '(') return true;
  }
  return false;
}

Complaints include_complaints(const std::string& path, std::string_view text) {
  Complaints out;
  const LayerRow* layer = find_layer(layer_of(path));
  if (layer == nullptr) return {path + ": no layer of this name in tests/layering"};
  const bool header = path.ends_with(".h");
  size_t line_start = 0;
  while (line_start < text.size()) {
    const size_t line_end = std::min(text.find('\n', line_start), text.size());
    std::string_view line = text.substr(line_start, line_end - line_start);
    line_start = line_end + 1;
    if (!line.starts_with("#include ")) continue;
    line.remove_prefix(9);
    const char close = line.starts_with('<') ? '>' : '"';
    const std::string_view target = line.substr(1, line.find(close, 1) - 1);
    const auto starts = [&](std::string_view prefix) { return target.starts_with(prefix); };
    if (close == '"') {
      if (!may_include(*layer, target)) {
        out.push_back(path + ": " + std::string(layer->name) + " may not include " +
                      std::string(target));
      }
      continue;
    }
    const bool heavy = starts("boost/") || starts("Eigen/") || starts("yaml-cpp/") ||
                       (starts("nlohmann/") && target != "nlohmann/json_fwd.hpp");
    if (header && heavy) out.push_back(path + ": <" + std::string(target) + "> in a header");
    if (starts("CLI/") && layer->name != "app") out.push_back(path + ": command line outside app");
    if (target == "iostream" && layer->name != "app") out.push_back(path + ": prints: <iostream>");
  }
  return out;
}

Complaints printing_complaints(const std::string& path, std::string_view text) {
  Complaints out;
  if (layer_of(path) == "app") return out;
  const std::string code = code_of(text);
  for (const std::string_view word :
       {"cout", "cerr", "clog", "stdout", "stderr", "printf(", "fprintf(", "vprintf(", "puts(",
        "fputs(", "putchar(", "fmt::print(", "exit(", "_exit(", "_Exit(", "quick_exit(", "abort(",
        "terminate("}) {
    if (uses(code, word))
      out.push_back(path + ": only app prints, exits or aborts: " + std::string(word));
  }
  return out;
}

Complaints shape_complaints(const std::string& path, std::string_view text) {
  Complaints out;
  const bool header = path.ends_with(".h");
  const auto lines = std::count(text.begin(), text.end(), '\n');
  // Tables of cases may be long; the limit keeps public headers readable.
  const int cap = header && path.starts_with("sim/") ? 120 : 400;
  if (lines > cap) {
    out.push_back(path + ": " + std::to_string(lines) + " lines; at most " + std::to_string(cap) +
                  ", split it by noun");
  }
  const auto bad = std::find_if(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 127 || (c < ' ' && c != '\n');
  });
  if (bad != text.end()) {
    out.push_back(path + ":" + std::to_string(1 + std::count(text.begin(), bad, '\n')) +
                  ": not printable ASCII");
  }
  if (header && text.find("#pragma once\n") == text.npos) out.push_back(path + ": no #pragma once");
  return out;
}

/// Paths from the repository root, sorted, of every file under `folder` with one of these endings.
std::vector<std::string> sources(const char* folder,
                                 const std::vector<std::string>& extensions = {".h", ".cpp"}) {
  const fs::path root = STEPSIM_SOURCE_DIR;
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (std::find(extensions.begin(), extensions.end(), extension) != extensions.end()) {
      out.push_back(entry.path().lexically_relative(root).generic_string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string read(const std::string& path) {
  std::ifstream in(fs::path(STEPSIM_SOURCE_DIR) / path, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string joined(const Complaints& complaints) {
  std::string out;
  for (const std::string& c : complaints) out += c + "\n";
  return out;
}

}  // namespace

TEST_CASE("layers: includes go strictly down, so siblings cannot meet and no cycle can form") {
  for (const LayerRow& layer : layers) {
    for (std::string_view place : layer.may_include) {
      if (place.empty()) continue;
      const LayerRow* below = find_layer(place.substr(0, place.find_first_of("/.")));
      REQUIRE(below != nullptr);
      CHECK_MESSAGE(below->rank < layer.rank, layer.name, " includes ", below->name);
    }
  }
}

TEST_CASE("layers: a file that breaks them is found") {
  const auto count = [](const char* path, const char* line) {
    return include_complaints(path, line).size();
  };
  CHECK(count("sim/engine/engine.cpp", "#include \"sim/engine/timeline.h\"\n") == 0);
  CHECK(count("sim/engine/engine.cpp", "#include \"sim/config/model.h\"\n") == 1);
  CHECK(count("sim/cost/kernel.cpp", "#include \"sim/network/fabric.h\"\n") == 1);  // siblings
  CHECK(count("sim/report/json.cpp", "#include \"sim/lower/label.h\"\n") == 0);
  CHECK(count("sim/report/json.cpp", "#include \"sim/lower/lower.h\"\n") == 1);
  CHECK(count("sim/report/json.cpp", "#include \"sim/parallel/schedule.h\"\n") == 1);
  CHECK(count("sim/simulate.cpp", "#include \"sim/report/report.h\"\n") == 0);
  CHECK(count("sim/report/report.cpp", "#include \"sim/simulate.h\"\n") == 1);
  CHECK(count("sim/app/main.cpp", "#include \"sim/simulate.h\"\n") == 0);
  CHECK(count("sim/engine/engine.cpp", "#include \"timeline.h\"\n") == 1);  // not from the root
  CHECK(count("sim/engine/engine.cpp", "#include \"tests/support/graph.h\"\n") == 1);
  CHECK(count("sim/misc/x.h", "") == 1);  // a folder that is no layer
  CHECK(count("sim/config/json.h", "#include <nlohmann/json.hpp>\n") == 1);
  CHECK(count("sim/config/json.h", "#include <nlohmann/json_fwd.hpp>\n") == 0);
  CHECK(count("sim/config/json.cpp", "#include <nlohmann/json.hpp>\n") == 0);
  CHECK(count("sim/config/json.cpp", "#include <CLI/CLI.hpp>\n") == 1);
}

TEST_CASE("printing: calls are found, words in comments, strings and longer names are not") {
  const auto count = [](const char* line) {
    return printing_complaints("sim/report/text.cpp", line).size();
  };
  CHECK(count("std::cout << x;") == 1);
  CHECK(count("fmt::print(\"{}\", x);") == 1);
  CHECK(count("std::exit (2);") == 1);
  CHECK(count("int n = 1'000; abort();") == 1);
  CHECK(count("const char* s = \"exit(1)\"; // abort()\n") == 0);
  CHECK(count("const char* s = R\"(printf(\"x\"))\"; /* abort() */") == 0);
  CHECK(count("std::snprintf(buffer, n, f, x); on_exit(); double exit = 0; link.exit();") == 0);
  CHECK(printing_complaints("sim/app/main.cpp", "std::cout << x;").empty());
}

TEST_CASE("shape: length and ASCII are tight") {
  const std::string pragma = "#pragma once\n";
  CHECK(shape_complaints("sim/base/x.h", pragma + std::string(119, '\n')).empty());
  CHECK(shape_complaints("sim/base/x.h", pragma + std::string(120, '\n')).size() == 1);
  CHECK(shape_complaints("sim/base/x.cpp", std::string(400, '\n')).empty());
  CHECK(shape_complaints("sim/base/x.cpp", std::string(401, '\n')).size() == 1);
  CHECK(shape_complaints("sim/report/page/x.js", std::string(400, '\n')).empty());
  CHECK(shape_complaints("sim/report/page/x.js", std::string(401, '\n')).size() == 1);
  CHECK(shape_complaints("sim/base/x.cpp", "// 5 \xC2\xB5s\n").size() == 1);
  CHECK(shape_complaints("sim/base/x.cpp", "\tint x;\n").size() == 1);
  CHECK(shape_complaints("sim/base/x.h", "int x;\n").size() == 1);
}

TEST_CASE("the tree keeps the laws") {
  std::set<std::string, std::less<>> seen;
  for (const std::string& path : sources("sim")) {
    const std::string text = read(path);
    seen.emplace(layer_of(path));
    for (const Complaints& found : {include_complaints(path, text), printing_complaints(path, text),
                                    shape_complaints(path, text)}) {
      CHECK_MESSAGE(found.empty(), joined(found));
    }
  }
  // An empty walk would prove nothing, and a layer without files should leave the table.
  for (const LayerRow& layer : layers)
    CHECK_MESSAGE(seen.contains(layer.name), layer.name, " has no files");
  for (const std::string& path : sources("tests")) {
    const Complaints found = shape_complaints(path, read(path));
    CHECK_MESSAGE(found.empty(), joined(found));
  }
  const std::vector<std::string> scripts = sources("sim", {".js"});
  CHECK(scripts.size() > 10);
  for (const std::string& path : scripts) {
    const Complaints found = shape_complaints(path, read(path));
    CHECK_MESSAGE(found.empty(), joined(found));
  }
}
