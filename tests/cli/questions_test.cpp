// run --why and --kineto, sensitivity and explain-measured, as a user calls them.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

using namespace stepsim::test;
using nlohmann::json;

TEST_CASE("run --why adds its block and its JSON, and nothing without") {
  const std::string scenario = "run scenarios/straggler-4xh100-ddp.json ";
  const std::string text = output(scenario + "--why");
  CHECK(tells(text, "Why exposed"));
  CHECK(tells(text, "ddp.overlap_grad_reduce"));
  check_fits_100_columns(text);
  CHECK(text.starts_with(output(scenario)));
  const json why = json::parse(output(scenario + "--why --json -"));
  CHECK(why["exposed"]["dp"]["reasons"]["gate_off"] > 0);
  CHECK(why["exposed"]["dp"]["gates"][0]["key"] == "ddp.overlap_grad_reduce");
  CHECK_FALSE(json::parse(output(scenario + "--json -")).contains("exposed"));
}

TEST_CASE("sensitivity and explain-measured print a page and JSON") {
  const std::string page = output("sensitivity scenarios/1f1b-4x8.json");
  CHECK(tells(page, "1 % better"));
  check_fits_100_columns(page);
  CHECK(json::parse(output("sensitivity scenarios/1f1b-4x8.json --json -"))["rows"].size() >= 2);
  const std::string told =
      output("explain-measured scenarios/straggler-4xh100-ddp.json --step-time 380ms");
  CHECK(tells(told, "One parameter that explains it"));
  check_fits_100_columns(told);
}

TEST_CASE("a device's own trace explains itself") {
  const std::string trace = "/tmp/stepsim-questions.json";
  const std::string scenario = "scenarios/straggler-4xh100-ddp.json";
  output("run " + scenario + " --kineto " + trace);
  const json j =
      json::parse(output("explain-measured " + scenario + " --kineto " + trace + " --json -"));
  std::filesystem::remove(trace);
  CHECK(j["explanations"].empty());
  const json &measured = j["trace"]["measured"], &predicted = j["trace"]["predicted"];
  CHECK(measured["steps"] == 1);
  CHECK(measured["compute_seconds"].get<double>() ==
        doctest::Approx(predicted["compute_seconds"].get<double>()));
  CHECK(measured["communication"]["dp"]["total_seconds"].get<double>() ==
        doctest::Approx(predicted["communication"]["dp"]["total_seconds"].get<double>()));
}

TEST_CASE("what cannot be answered is one line and exit code 2") {
  struct Case {
    const char *words, *part;
  };
  for (const Case& c : {
           Case{"explain-measured scenarios/1f1b-4x8.json", "is required: the measured time"},
           Case{"explain-measured scenarios/1f1b-4x8.json --step-time 9", "needs a unit"},
           Case{"explain-measured scenarios/1f1b-4x8.json --step-time 0s", "must be more than 0"},
           Case{"explain-measured scenarios/1f1b-4x8.json --kineto /nowhere", "cannot be read"},
           Case{"explain-measured scenarios/1f1b-4x8.json --kineto README.md", "is not JSON"},
           Case{"explain-measured scenarios/1f1b-4x8.json --kineto models/llama3-8b.json",
                "holds no GPU kernels"},
           Case{"run scenarios/1f1b-4x8.json --kineto /tmp/x --kineto-rank 9", "is not simulated"},
       }) {
    CAPTURE(std::string(c.words));
    const Outcome outcome = outcome_of(c.words);
    const std::string& line = outcome.err;
    CAPTURE(line);
    CHECK(outcome.code == 2);
    CHECK(tells(line, c.part));
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  }
}
