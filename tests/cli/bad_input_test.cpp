// Law: bad input ends with exit code 2 and one line `file#/pointer: message` on stderr, within a
// second, writing nothing.
#include <chrono>
#include <cstdlib>
#include <set>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/config/bad_folder.h"

using namespace stepsim;

namespace {

std::string quoted(const std::string& word) { return "'" + word + "'"; }  // no case holds a quote

std::set<std::string> files_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    names.insert(entry.path().string());
  return names;
}

}  // namespace

TEST_CASE("bad inputs exit 2 with one line and write nothing") {
  CHECK(bad::cases.size() >= 60);
  // Under the sanitizers tests/config reads all of them in process; here a few are enough.
  const size_t stride = std::getenv("STEPSIM_QUICK") ? 12 : 1;
  for (size_t i = 0; i < bad::cases.size(); i += stride) {
    const bad::Case& bad = bad::cases[i];
    CAPTURE(std::string(bad.what));
    const bad::Folder folder(bad);
    std::string words = "run " + quoted(folder.run());
    for (const std::string& word : folder.words()) words += " " + quoted(word);
    words += " --json " + quoted((folder.path() / "report.json").string());
    const std::set<std::string> before = files_in(folder.path());
    const auto start = std::chrono::steady_clock::now();
    const test::Outcome outcome = test::outcome_of(words);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const std::string& line = outcome.err;
    CAPTURE(line);
    CAPTURE(std::string(bad.line));
    CHECK(outcome.code == 2);
    CHECK(line.find(bad.line) != std::string::npos);
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    CHECK(line.ends_with('\n'));
    CHECK(outcome.out.empty());
    CHECK(files_in(folder.path()) == before);
    CHECK(elapsed.count() < 1.0);
  }
}
