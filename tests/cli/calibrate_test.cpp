// `stepsim calibrate` and `validate --svg`: what a user does with measurements of their own.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "tests/cli/page_block.h"

using namespace stepsim::test;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

struct Workplace {
  fs::path path = fs::temp_directory_path() / "stepsim_cli_calibrate";
  Workplace() { fs::create_directories(path); }
  ~Workplace() { fs::remove_all(path); }
  std::string at(const std::string& name) const { return (path / name).string(); }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(at(name)) << text;
    return at(name);
  }
};

const char* const table =
    "op,n_gpus,n_nodes,msg_bytes,time_us\n"
    "all_reduce,8,1,1073741824,5100\nall_reduce,8,1,268435456,1330\nall_reduce,8,1,67108864,360\n"
    "all_gather,8,1,1073741824,3000\nall_gather,8,1,268435456,790\nall_gather,8,1,67108864,220\n"
    "all_gather,8,1,16777216,80\nall_reduce,8,1,16777216,130\n";

}  // namespace

TEST_CASE("a calibrated system is a cluster") {
  const Workplace place;
  const std::string mine = place.at("mine.json");
  const std::string page = output("calibrate --cluster dgx-h100 --collectives " +
                                  place.put("c.csv", table) + " --write " + mine);
  CHECK(page.find("8 measured collectives: median error") == 0);
  CHECK(page.find("/gpu/nvlink/efficiency") != std::string::npos);
  const std::string predicted = output("collective all_gather --bytes 1G --cluster " + mine + ":1");
  CHECK(predicted.find("all_gather of 8 GPUs on 1 node of mine") == 0);
}

TEST_CASE("bad measurements are one line with file, place and reason") {
  const Workplace place;
  const std::string log = place.put("all_reduce.log", "srun: error: task 0 exited\n");
  const std::pair<std::string, std::string> cases[] = {
      {"calibrate --collectives " + log, "/--cluster: is required"},
      {"calibrate --cluster dgx-h100 --collectives " + log, "all_reduce.log#: holds no table"},
      {"calibrate --cluster dgx-h100", "/--collectives: is required"},
      {"calibrate --cluster no-such --collectives " + log, "unknown system 'no-such'"},
      {"calibrate", "/--kernels: is required"},
      {"calibrate --steps " + place.put("s.csv", "name,scenario\n"),
       "has no column 'step_seconds'"},
      {"calibrate --cluster dgx-h100 --collectives " + log + " --write " + log, "would overwrite"},
      {"validate --collectives " + log + " --svg x.svg", "/--svg: needs --rows"},
  };
  for (const auto& [words, reason] : cases) {
    CAPTURE(words);
    const Outcome outcome = outcome_of(words);
    const std::string& text = outcome.err;
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(text.find(reason) != std::string::npos, text);
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  }
}

TEST_CASE("one's own steps as a picture") {
  const Workplace place;
  const std::string rows =
      place.put("s.csv", "name,scenario,step_seconds\na," +
                             fs::absolute("scenarios/1f1b-4x8.json").string() + ",0.033\n");
  const std::string page = output("validate --rows " + rows + " --svg " + place.at("s.svg"));
  CHECK(page.find("scored") != std::string::npos);
  CHECK(read_text(place.at("s.svg")).find("1 steps, 1 within 10 %") != std::string::npos);
  const json block = page_block(output("validate --rows " + rows + " --html -"));
  CHECK(block.at("what") == "steps");
  CHECK(block.at("validation") == json::parse(output("validate --rows " + rows + " --json -")));
  const Outcome twice = outcome_of("validate --rows " + rows + " --svg " + place.at("x") +
                                   " --html " + place.at("x"));
  CHECK(twice.code == 2);
  CHECK(twice.err.find("/--html: names the file of another output") != std::string::npos);
}
