// The cases of bad_inputs.h as files on disk.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/config/bad_inputs.h"

namespace stepsim::bad {

/// Applies "a.b = JSON; - c.d" to a copy of `good`.
inline nlohmann::json edited(nlohmann::json good, const std::string& edits) {
  for (size_t start = 0; start < edits.size();) {
    const size_t end = std::min(edits.find("; ", start), edits.size());
    const std::string edit = edits.substr(start, end - start);
    start = end + 2;
    const bool removes = edit.starts_with("- ");
    const size_t equals = edit.find(" = ");
    std::string path = removes ? edit.substr(2) : edit.substr(0, equals);
    std::replace(path.begin(), path.end(), '.', '/');
    const nlohmann::json::json_pointer pointer("/" + path);
    if (!removes) {
      good[pointer] = nlohmann::json::parse(edit.substr(equals + 3));
    } else {
      REQUIRE(good.contains(pointer));
      (pointer.parent_pointer().empty() ? good : good[pointer.parent_pointer()])
          .erase(pointer.back());
    }
  }
  return good;
}

/// A folder with the good files, one of them spoilt. Removed at the end.
class Folder {
 public:
  explicit Folder(const Case& bad) {
    static int count = 0;
    folder_ = std::filesystem::temp_directory_path() /
              ("stepsim_bad_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(folder_ / "m");
    const auto text = [&](Where where, const nlohmann::json& good) {
      return (bad.where == where ? edited(good, bad.edit) : good).dump();
    };
    write("m/config.json", text(Where::model, good_model));
    write("s.json", text(Where::system, good_system));
    write("g.json", text(Where::gpu, good_gpu));
    std::string scenario = text(Where::scenario, good_scenario);
    if (bad.where == Where::text) scenario = bad.edit;
    if (scenario == "@deep") scenario = "{\"name\": " + std::string(100000, '[');
    write("x.json", scenario);
    run_ = bad.where == Where::path ? folder_ / bad.edit : folder_ / "x.json";
    if (bad.where == Where::command) words_.emplace_back(bad.edit);
  }
  Folder(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(folder_); }

  std::string run() const { return run_.string(); }
  const std::vector<std::string>& words() const { return words_; }
  const std::filesystem::path& path() const { return folder_; }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  std::filesystem::path folder_, run_;
  std::vector<std::string> words_;
};

}  // namespace stepsim::bad
