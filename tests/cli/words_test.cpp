// What is wrong on the command line itself is one line like any other bad input.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.h"

using namespace stepsim::test;

TEST_CASE("words that are not known: exit 2, one line, the nearest word") {
  struct Case {
    const char* words;
    const char* part;
  };
  for (const Case& c : {
           Case{"rum scenarios/1f1b-4x8.json", "did you mean 'run'"},
           Case{"", "expected a command"},
           Case{"run", "scenario is required"},
           Case{"run scenarios/1f1b-4x8.json --trce x", "did you mean '--trace'"},
           Case{"list modles", "did you mean 'models'"},
           Case{"run scenarios/1f1b-4x8.json --json a --trace a", "both name 'a'"},
           Case{"run scenarios/1f1b-4x8.json --json - --trace -", "both name '-'"},
           Case{"run scenarios/1f1b-4x8.json --json a --trace ./a", "both name './a'"},
           Case{"run scenarios/1f1b-4x8.json --json /tmp/../tmp/a --trace /tmp/a", "both name"},
           Case{"run scenarios/1f1b-4x8.json model.seq_length=", "expected a value"},
       }) {
    CAPTURE(std::string(c.words));
    const Outcome outcome = outcome_of(c.words);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.starts_with("<command line>#"));
    CHECK(outcome.err.find(c.part) != std::string::npos);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  }
}

TEST_CASE("what cannot be written is an error, standard output included") {
  for (const char* words : {"run scenarios/1f1b-4x8.json", "list models", "list keys", "explain",
                            "explain bucket_size", "explain bucket_size --json -"}) {
    CAPTURE(std::string(words));
    const Outcome outcome = outcome_of(std::string(words) + " >/dev/full");
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find("could not be written") != std::string::npos);
  }
}

TEST_CASE("with --json - every error is JSON on standard output too") {
  for (const char* words :
       {"run scenarios/1f1b-4x8.json --json - --trce x", "run --json -", "run --json=- x --trce",
        "run none.json --json -", "explain no_such_key_at_all --json -"}) {
    CAPTURE(std::string(words));
    const Outcome outcome = outcome_of(words);
    CHECK(outcome.code == 2);
    const auto body = nlohmann::json::parse(outcome.out);
    CHECK(body.at("error").at("message").get<std::string>().size() > 5);
  }
}

// Whatever the file is called.
TEST_CASE("no output overwrites the scenario") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "stepsim-words";
  fs::remove_all(folder);
  fs::create_directories(folder / "d");
  fs::copy_file("scenarios/1f1b-4x8.json", folder / "s.json");
  fs::create_hard_link(folder / "s.json", folder / "hard.json");
  fs::create_symlink(folder / "s.json", folder / "soft.json");
  const std::string before = read_text(folder / "s.json"), at = folder.string();
  for (const char* flag : {"--json", "--trace", "--html"})
    for (const char* name : {"/s.json", "/./s.json", "/d/../s.json", "/hard.json", "/soft.json"}) {
      CAPTURE(std::string(flag) + " " + name);
      const Outcome outcome = outcome_of("run " + at + "/s.json " + flag + " " + at + name);
      CHECK(outcome.code == 2);
      CHECK(outcome.err.find("would overwrite the scenario") != std::string::npos);
      CHECK(read_text(folder / "s.json") == before);
    }
  // Two names of a file that is not there yet.
  fs::create_symlink("new.json", folder / "link.json");
  const Outcome outcome = outcome_of("run " + at + "/s.json --json " + at + "/new.json --trace " +
                                     at + "/d/../link.json");
  CHECK(outcome.err.find("would overwrite the report") != std::string::npos);
  const Outcome page =
      outcome_of("run " + at + "/s.json --trace " + at + "/x --html " + at + "/./x");
  CHECK(page.code == 2);
  CHECK(page.err.find("#/--html: would overwrite the trace: --trace and --html both name") !=
        std::string::npos);
  CHECK(output("run " + at + "/s.json --html -").starts_with("<!doctype html>"));
  fs::remove_all(folder);
}

TEST_CASE(
    "a step that cannot finish: its cycle on standard error, exit code 1, no time, no report") {
  const Outcome outcome = outcome_of(
      "run scenarios/1f1b-4x8.json pipeline.p2p_order=fixed --json /tmp/stepsim-stall.json");
  CHECK(outcome.code == 1);
  CHECK(outcome.err.starts_with("the step cannot finish: after 0.006 s nothing moves"));
  CHECK(outcome.err.find("rank 0 (stage 0) pp send next: pp forward") != std::string::npos);
  CHECK(outcome.err.find("rank 1 (stage 1) pp send prev: pp backward") != std::string::npos);
  CHECK(outcome.out.empty());
  CHECK_FALSE(std::ifstream("/tmp/stepsim-stall.json").good());
  CHECK(outcome_of("run scenarios/1f1b-4x8.json pipeline.p2p_order=even_odd").code == 0);
  // On standard output as JSON: one object with the error of every command and the waits.
  const Outcome piped = outcome_of("run scenarios/1f1b-4x8.json pipeline.p2p_order=fixed --json -");
  CHECK(piped.code == 1);
  const auto body = nlohmann::json::parse(piped.out);
  CHECK(body["error"]["file"] == "scenarios/1f1b-4x8.json");
  CHECK(body["error"]["pointer"] == "");
  CHECK(piped.err.starts_with(body["error"]["message"].get<std::string>() + "\n"));
  CHECK(body["stall"]["since_seconds"].get<double>() == doctest::Approx(0.006));
  CHECK(body["stall"]["waits"].size() >= 2);
  for (const auto& wait : body["stall"]["waits"])
    CHECK(piped.err.find("  " + wait.get<std::string>() + "\n") != std::string::npos);
}

TEST_CASE("a measured time is compared only with its own settings") {
  const std::string file = "run scenarios/nemotron4-15b-16xh100-bf16.json";
  const auto shows = [&](const std::string& words, const char* part) {
    return output(file + words).find(part) != std::string::npos;
  };
  CHECK(shows("", ", error "));
  CHECK(shows(" train.micro_batch_size=4 --json /dev/null", ", error "));  // as in the file
  for (const char* words :
       {" train.global_batch_size=32", " --no-contention", " --cluster dgx-h100:4"}) {
    CAPTURE(std::string(words));
    CHECK_FALSE(shows(words, ", error "));
    CHECK(shows(words, "is for its own settings"));
  }
}

TEST_CASE("help fits 100 columns") {
  for (const char* words :
       {"--help", "run --help", "list --help", "collective --help", "validate --help"}) {
    std::istringstream text(output(words));
    for (std::string line; std::getline(text, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
    }
  }
}
