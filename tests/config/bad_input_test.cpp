// Law: every bad input is one Error that points at the place and says what was expected.
#include "sim/base/error.h"
#include "sim/config/read.h"
#include "tests/config/bad_folder.h"

using namespace stepsim;

TEST_CASE("the good files read") {
  const bad::Folder folder({"none", bad::Where::command, "name=good", ""});
  const Scenario scenario = read_scenario(folder.run(), {}, "", find_data());
  CHECK(scenario.parallel.dp == 4);
  CHECK(scenario.batch.microbatches == 16);
}

TEST_CASE("bad inputs are refused with one pointing line") {
  CHECK(bad::cases.size() >= 60);
  for (const bad::Case& bad : bad::cases) {
    CAPTURE(std::string(bad.what));
    const bad::Folder folder(bad);
    try {
      read_scenario(folder.run(), folder.words(), "", find_data());
      FAIL_CHECK("was accepted");
    } catch (const Error& error) {
      const std::string line = error.what();
      CAPTURE(line);
      CAPTURE(std::string(bad.line));
      CHECK(line.find(bad.line) != std::string::npos);
      CHECK(line.find('\n') == std::string::npos);
      CHECK(line.size() < 700);
    }
  }
}
