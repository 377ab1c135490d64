// What is wrong on the command line itself is one line like any other bad input.
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "tests/cli/program.h"

using namespace stepsim::test;

namespace {

struct Outcome {
  int code = 0;
  std::string err;
};

Outcome run(const std::string& words) {
  const std::string err = "/tmp/stepsim-words.err";
  const std::string command =
      std::string(STEPSIM_PROGRAM) + " " + words + " >/tmp/stepsim-words.out 2>" + err;
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(err)};
}

}  // namespace

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
           Case{"run scenarios/1f1b-4x8.json model.seq_length=", "expected a value"},
       }) {
    CAPTURE(std::string(c.words));
    const Outcome outcome = run(c.words);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.starts_with("<command line>#"));
    CHECK(outcome.err.find(c.part) != std::string::npos);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  }
}

TEST_CASE("what cannot be written is an error, standard output included") {
  const std::string command = std::string(STEPSIM_PROGRAM) +
                              " run scenarios/1f1b-4x8.json >/dev/full 2>/tmp/stepsim-words.err";
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(read_text("/tmp/stepsim-words.err").find("could not be written") != std::string::npos);
}

TEST_CASE("help fits 100 columns") {
  for (const char* words : {"--help", "run --help", "list --help"}) {
    std::istringstream text(output(words));
    for (std::string line; std::getline(text, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
    }
  }
}
