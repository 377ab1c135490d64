// One screen: what `explain` and `list` print is never wider than 100 columns.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.h"

using namespace stepsim::test;

namespace {

int lines_of(const std::string& text) {
  std::istringstream in(text);
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    CAPTURE(line);
    CHECK(line.size() <= 100);
    CHECK((line.empty() || line.back() != ' '));
  }
  return lines;
}

}  // namespace

TEST_CASE("catalogues fit the page, one line each") {
  for (const char* what :
       {"models", "clusters", "scenarios", "schedules", "kernels", "presets", "keys"}) {
    const std::string text = output(std::string("list ") + what);
    CHECK(lines_of(text) >= 3);
    CHECK(text.find("schema") == std::string::npos);
  }
}

TEST_CASE("every key is explained on one screen") {
  const auto all = nlohmann::json::parse(output("explain --json -"));
  std::string every;
  for (const auto& key : all.at("keys")) every += " " + key.at("key").get<std::string>();
  CHECK(all.at("keys").size() > 500);
  CHECK(lines_of(output("explain" + every)) > 2000);
  for (const char* name : {"", "bucket_size", "overlap_grad_reduce", "-tp", "num_sm", "seq_length",
                           "--tp-comm-overlap", "use_megatron_fsdp", "ddp", "comm_overlap"}) {
    CAPTURE(std::string(name));
    CHECK(lines_of(output(std::string("explain ") + name)) <= 50);
  }
}
