// The README's examples are tests: its report is what the program prints, its scenario runs.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/cli/program.h"

using namespace stepsim::test;

TEST_CASE("the report in the README is what the demo prints") {
  const std::string readme = read_text("README.md");
  const std::string report = output("run scenarios/llama3-70b-64xh100-bf16.json");
  REQUIRE(!report.empty());
  CHECK_MESSAGE(readme.find("```\n" + report + "```\n") != std::string::npos,
                "README.md shows another report; put this one between its fences:\n", report);
}

TEST_CASE("the difference in the README is how diff begins") {
  if (std::getenv("STEPSIM_QUICK") != nullptr) return;
  const std::string told =
      output("diff scenarios/llama3-70b-64xh100-bf16.json '~model.sequence_parallel'");
  const std::string gates = told.substr(0, told.find("\n\n") + 1);
  REQUIRE(tells(gates, "TP overlap"));
  CHECK_MESSAGE(tells(read_text("README.md"), (gates + "```\n").c_str()),
                "README.md shows another difference; put this one there:\n", gates);
}

TEST_CASE("the scenario in the README runs") {
  const std::string readme = read_text("README.md");
  const size_t start = readme.find("```json\n") + 8;
  const std::string scenario = readme.substr(start, readme.find("```", start) - start);
  const std::string path = "/tmp/stepsim_readme_" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << scenario;
  CHECK(output("run " + path).find("Step time") != std::string::npos);
  std::remove(path.c_str());
}

TEST_CASE("one screen: every shipped scenario's report fits 100 columns and 50 lines") {
  const std::string list = output("list scenarios");
  std::istringstream lines(list);
  // Sanitizer runs see a sample: the text's writer is the same.
  const int stride = std::getenv("STEPSIM_QUICK") != nullptr ? 5 : 1;
  int scenarios = 0, read = 0;
  for (std::string line; std::getline(lines, line);) {
    if (read++ % stride != 0) continue;
    const std::string name = line.substr(0, line.find(' '));
    if (name.starts_with("llama3.1-405b")) continue;  // seconds each; the published test runs them
    std::istringstream report(output("run scenarios/" + name + ".json"));
    int rows = 0;
    for (std::string row; std::getline(report, row); ++rows) {
      CAPTURE(row);
      CHECK(row.size() <= 100);
    }
    CHECK(rows <= 50);
    ++scenarios;
  }
  CHECK(scenarios >= 12 / stride);
}
