// `diff` and `bisect` as scripts and pull requests use them: exit codes, folders, JSON, traces.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/page_block.h"

using namespace stepsim::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string pairs = "scenarios/pairs/";
std::string pair(const std::string& name) {
  return pairs + "old/" + name + ".json " + pairs + "new/" + name + ".json";
}

/// A folder that goes away with the test.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("stepsim-diff-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

}  // namespace

TEST_CASE("the JSON of a difference keeps its contract") {
  const json d = json::parse(output("diff " + pair("grad-overlap-off") + " --json -"));
  const double delta = d.at("delta_seconds");
  CHECK(d.at("b").at("step_time_seconds").get<double>() -
            d.at("a").at("step_time_seconds").get<double>() ==
        doctest::Approx(delta));
  double by_change = 0, by_cause = 0;
  for (const json& change : d.at("by_change"))
    by_change += change.at("delta_seconds").get<double>();
  for (const auto& [cause, seconds] : d.at("by_cause").items()) by_cause += seconds.get<double>();
  CHECK(by_change == doctest::Approx(delta).epsilon(1e-9));
  CHECK(by_cause == doctest::Approx(delta).epsilon(1e-9));
  CHECK(d.at("by_change")[0].at("key") == "comm_overlap.overlap_grad_reduce");
  CHECK(d.at("by_change")[0].at("from") == true);
  CHECK(d.at("by_change")[0].at("to") == false);
  CHECK(d.at("method").at("exact") == true);
  for (const char* part : {"requested", "effective", "gates", "undone", "interactions", "memory",
                           "critical_path", "by_kernel"})
    CHECK_MESSAGE(d.contains(part), part);
}

TEST_CASE("a screen is 100 columns wide; one scenario and overrides are two") {
  const std::string text = output("diff " + pair("several"));
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) CHECK(line.size() <= 100);
  CHECK(count <= 50);
  CHECK(output("diff scenarios/zb-h1-4x8.json pipeline.schedule=1f1b")
            .find("pipeline.schedule \"zb_h1\" -> \"1f1b\"") != std::string::npos);
  // Flags of Bridge are overrides here too: 27 ms of 8 microbatches; another takes 3 more.
  CHECK(output("diff scenarios/zb-h1-4x8.json -gb 9").find("+3.00 ms, +11.11 %, slower") !=
        std::string::npos);
}

TEST_CASE("limits decide the exit code, and bad input stays 2") {
  struct Case {
    std::string words;
    int code;
    const char* says;
  };
  const std::string zb = "diff scenarios/zb-h1-4x8.json -gb 9 ";  // 27 to 30 ms
  for (const Case& c :
       {Case{zb, 0, ""}, Case{zb + "--fail-above 11%", 1, "fails: +11.11 % is above 11 %"},
        Case{zb + "--fail-above 12%", 0, ""}, Case{zb + "--fail-above 2ms", 1, "is above 2.000 ms"},
        Case{zb + "--fail-above 2", 2, "#/--fail-above"},
        Case{zb + "--fail-on silnt", 2, "did you mean 'silent'"},
        Case{"diff " + pair("sequence-parallel-lost") + " --fail-on silent", 1,
             "comm_overlap.tp_comm_overlap is silently changed"},
        Case{"diff " + pair("ep-overlap"), 1, "does not fit in memory"},
        Case{"diff scenarios/zb-h1-4x8.json pipeline.schedule=1f1 --fail-on error", 1, "refused: "},
        Case{"diff scenarios/zb-h1-4x8.json pipeline.schedule=1f1", 2, "#/pipeline/schedule"},
        Case{"diff scenarios/zb-h1-4x8.json", 2, "expected a second scenario"},
        Case{"diff", 2, "expected a scenario"}, Case{"diff a.json b.json c.json", 2, "is a third"},
        Case{"diff scenarios/1f1b-4x8.json pipeline.p2p_order=fixed", 1, "cannot finish"},
        Case{"bisect scenarios/zb-h1-4x8.json -gb 9 --share 0%", 2, "#/--share"}}) {
    CAPTURE(c.words);
    const Outcome found = outcome_of(c.words);
    CHECK(found.code == c.code);
    CHECK(found.both().find(c.says) != std::string::npos);
  }
}

TEST_CASE("two folders: every pair in one table, what has no counterpart is said") {
  const Folder folder;
  for (const char* side : {"old", "new"}) {
    fs::create_directories(folder.path / side);
    for (int i = 0; i < 30; ++i) {
      const int microbatches = std::string(side) == "old" || i != 7 ? 8 : 9;
      std::ofstream(folder.path / side / ("s" + std::to_string(100 + i) + ".json"))
          << R"({"pipeline": {"schedule": "zb_h1"}, "model": {"pipeline_model_parallel_size": 4},
                 "costs": {"forward_seconds": 1e-3, "backward_input_seconds": 1e-3,
                           "backward_weight_seconds": 1e-3}, "train": {"global_batch_size": )"
          << microbatches << "}}";
    }
  }
  const std::string both = (folder.path / "old").string() + " " + (folder.path / "new").string();
  CHECK(outcome_of("diff " + both).code == 0);
  const Outcome gated = outcome_of("diff " + both + " --fail-above 2% --markdown");
  CHECK(gated.code == 1);
  CHECK(gated.out.find("30 pairs compared, 1 failed") != std::string::npos);
  CHECK(gated.out.find("| s107.json | 27.000 ms | 30.000 ms | +11.11 % | **FAIL**: +11.11 % is "
                       "above 2 % | train.global_batch_size 8 -> 9 |") != std::string::npos);
  CHECK(outcome_of("diff " + both + " --fail-above 12%").code == 0);

  fs::remove(folder.path / "new" / "s103.json");
  std::ofstream(folder.path / "old" / "s104.json") << "{";
  const Outcome broken = outcome_of("diff " + both);
  CHECK(broken.code == 2);
  CHECK(
      broken.both().find("28 pairs compared, 0 failed, 1 without a counterpart, 1 not readable") !=
      std::string::npos);
  CHECK(broken.both().find("only in " + (folder.path / "old").string()) != std::string::npos);
  const json table = json::parse(outcome_of("diff " + both + " --json -").out);
  CHECK(table.at("rows").size() == 30);
  fs::create_directories(folder.path / "none");
  CHECK(outcome_of("diff " + (folder.path / "none").string() + " " + (folder.path / "old").string())
            .code == 2);
}

TEST_CASE("both timelines in one trace, from time 0, with processes of their own") {
  const json trace =
      json::parse(output("diff scenarios/zb-h1-4x8.json -gb 9 --trace -")).at("traceEvents");
  std::map<std::string, int> named;
  std::map<int, double> first;
  for (const json& event : trace) {
    const int process = event.at("pid");
    if (event.at("name") == "process_name")
      named[event.at("args").at("name")] = process;
    else if (event.at("ph") == "X")
      first.try_emplace(process, event.at("ts").get<double>());
  }
  CHECK(named.size() == 8);
  CHECK(named.at("A: rank 0, stage 0 (x1 ranks)") == 1);
  CHECK(named.at("B: rank 0, stage 0 (x1 ranks)") == 5);
  CHECK(first.at(1) == first.at(5));
}

TEST_CASE("a page of its own: both steps and their difference, nothing of a name acted on") {
  const json data =
      page_block(output("diff scenarios/zb-h1-4x8.json -gb 9 'model.x=<script>' --html -"));
  // 1F1B's 8 microbatches and the ramp of 1 ms a forward: 27 ms; each more adds 3 ms.
  CHECK(data.at("diff").at("a").at("step_time_seconds") == doctest::Approx(0.027));
  CHECK(data.at("diff").at("delta_seconds") == doctest::Approx(0.003));
  CHECK(data.at("sides").at(1).at("timeline").at("devices").size() == 4);
}

TEST_CASE("bisect names the changes that explain most") {
  const std::string text = output("bisect " + pair("several") + " --share 80%");
  CHECK(text.find("comm_overlap.tp_comm_overlap true -> false") != std::string::npos);
  CHECK(text.find("No smaller set does: all 16 combinations were simulated.") != std::string::npos);
  const json found = json::parse(output("bisect " + pair("tp-overlap-off") + " --json -"));
  CHECK(found.at("changes").size() == 1);
  CHECK(found.at("explained_seconds") == found.at("delta_seconds"));
}
