// Differences that add up: the shipped pairs, the silent gate, several changes at once.
#include "sim/study/diff.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "sim/base/error.h"
#include "sim/study/bisect.h"
#include "sim/study/diff_table.h"
#include "sim/study/diff_text.h"

using namespace stepsim;
namespace fs = std::filesystem;

namespace {

Scenario read_words(const std::string& path, std::vector<std::string> words = {}) {
  return read_scenario(path, words, "", find_data());
}

Diff difference(Scenario a, Scenario b, const DiffOptions& options = {}) {
  return std::get<Diff>(diff(std::move(a), std::move(b), find_data(), options));
}

double sum_of(const std::vector<CauseRow>& rows) {
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [](double sum, const CauseRow& r) { return sum + r.delta(); });
}

double sum_of(const std::vector<ChangeShare>& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0.0,
                         [](double sum, const ChangeShare& s) { return sum + s.delta_seconds; });
}

const CauseRow& cause_row(const Diff& d, const std::string& name) {
  for (const CauseRow& r : d.by_cause)
    if (r.name == name) return r;
  FAIL("no cause " << name);
  return d.by_cause.front();
}

void check_sums(const Diff& d) {
  const double allowed = 1e-9 * std::abs(d.delta_seconds);
  CHECK(std::abs(sum_of(d.by_change) - d.delta_seconds) <= allowed);
  CHECK(std::abs(sum_of(d.by_cause) - d.delta_seconds) <= allowed);
  CHECK(std::abs(sum_of(d.critical_path) - d.delta_seconds) <= allowed);
  for (const CauseRow& cause : d.by_cause)
    if (!cause.parts.empty())
      CHECK(std::abs(sum_of(cause.parts) - cause.delta()) <= 1e-9 * d.a.report.step_seconds);
}

/// 70B on 64 GPUs, one round of microbatches: everything on, and cheap.
const std::vector<std::string> few{"train.global_batch_size=8"};
Scenario large(std::vector<std::string> words = {}) {
  words.insert(words.begin(), few.begin(), few.end());
  return read_words("scenarios/llama3-70b-64xh100-bf16.json", words);
}

}  // namespace

TEST_CASE("shipped pairs: changes and causes add up, and the ends exchanged flip every sign") {
  const char* quick = std::getenv("STEPSIM_QUICK");
  const size_t every = quick != nullptr && std::string(quick) == "1" ? 6 : 1;
  size_t pairs = 0;
  for (const auto& entry : fs::directory_iterator("scenarios/pairs/old")) {
    const std::string name = entry.path().filename().string();
    if (pairs++ % every != 0) continue;
    CAPTURE(name);
    const Scenario a = read_words(entry.path().string()),
                   b = read_words("scenarios/pairs/new/" + name);
    CHECK(a.name + ".json" == name);
    CHECK(!a.source.empty());
    const Diff d = difference(a, b), back = difference(b, a);
    CHECK(d.delta_seconds != 0);
    CHECK(!d.requested.empty());
    CHECK(d.attribution.errors.empty());
    check_sums(d);
    CHECK(back.delta_seconds == -d.delta_seconds);
    REQUIRE(back.by_change.size() == d.by_change.size());
    for (size_t i = 0; i < d.by_change.size(); ++i) {
      CHECK(back.by_change[i].changes == d.by_change[i].changes);
      CHECK(back.by_change[i].delta_seconds == -d.by_change[i].delta_seconds);
    }
    for (size_t i = 0; i < d.by_cause.size(); ++i)
      CHECK(back.by_cause[i].delta() == -d.by_cause[i].delta());
  }
  CHECK(pairs >= 20);
}

TEST_CASE("a scenario against itself is empty") {
  const Diff d = difference(large(), large());
  CHECK(d.requested.empty());
  CHECK(d.effective.empty());
  CHECK(d.by_change.empty());
  CHECK(d.gates.empty());
  CHECK(d.delta_seconds == 0);
  for (const CauseRow& cause : d.by_cause) CHECK(cause.delta() == 0);
  CHECK(diff_text(d).find("Nothing differs.") != std::string::npos);
}

// Kernels by kind are another pass over the same timeline: they come to the ledger's compute.
TEST_CASE("kinds of kernels add up to the ledger") {
  const Simulation run = std::get<Simulation>(simulate(large()));
  for (const auto& [cause, of] : {std::pair{Cause::compute, TaskClass::compute},
                                  std::pair{Cause::optimizer, TaskClass::optimizer}}) {
    double sum = 0;
    for (const CauseRow& kind : kernel_rows(run, of)) sum += kind.from_seconds;
    CHECK(sum == doctest::Approx(run.report.ledger[cause]).epsilon(1e-11));
  }
}

// Guides of NVIDIA's users: a throughput regression can be a flag that silently stopped being in
// effect. Sequence parallelism is removed, TP overlap is asked for at both ends.
TEST_CASE("a gate that closes silently is the first thing said, with its key and its cost") {
  const Diff d = difference(large(), large({"~model.sequence_parallel"}));
  REQUIRE(d.gates.size() == 1);
  const GateChange& gate = d.gates[0];
  CHECK(gate.lost);
  CHECK(gate.finding.key == "comm_overlap.tp_comm_overlap");
  REQUIRE(gate.share);
  CHECK(d.requested[d.by_change[*gate.share].changes.front()].key == "model.sequence_parallel");
  // What the overlap is worth: the first scenario with it switched off.
  const Diff off = difference(large(), large({"comm_overlap.tp_comm_overlap=false"}));
  REQUIRE(gate.delta_seconds);
  CHECK(*gate.delta_seconds == off.delta_seconds);
  const std::string text = diff_text(d), first = text.substr(0, text.find('\n'));
  CHECK(
      first.starts_with("TP overlap is no longer in effect, because of "
                        "model.sequence_parallel: +"));
  CHECK(diff_markdown(d).find("> **TP overlap is no longer in effect") != std::string::npos);
  // One key that changes many: all are listed.
  std::vector<std::string> keys;
  for (const EffectiveChange& e : d.by_change[0].effective) keys.push_back(e.key);
  CHECK(std::count(keys.begin(), keys.end(), "model.sequence_parallel") == 1);
  CHECK(std::count(keys.begin(), keys.end(), "model.tp_comm_overlap") == 1);
  CHECK(cause_row(d, "exposed_tp").delta() > 0);
  const Diff back = difference(large({"~model.sequence_parallel"}), large());
  REQUIRE(back.gates.size() == 1);
  CHECK_FALSE(back.gates[0].lost);
  CHECK(*back.gates[0].delta_seconds == -*gate.delta_seconds);
}

TEST_CASE("a change that a gate undoes is named, and is worth nothing") {
  const Diff d = difference(
      large({"comm_overlap.overlap_grad_reduce=false"}),
      large({"comm_overlap.overlap_grad_reduce=false", "comm_overlap.bucket_size=1000000"}));
  REQUIRE(d.undone.size() == 1);
  CHECK(d.requested[d.undone[0].change].key == "comm_overlap.bucket_size");
  CHECK(d.undone[0].reason.find("overlap_grad_reduce") != std::string::npos);
  CHECK(d.delta_seconds == 0);
  CHECK(d.by_change.at(0).delta_seconds == 0);
}

TEST_CASE("keys that only work together are one change") {
  // Without virtual stages p2p overlap is refused: to ask for it and to take them is one change.
  const Diff d = difference(
      large({"comm_overlap.overlap_p2p_comm=true", "comm_overlap.batch_p2p_comm=false"}),
      large({"~model.virtual_pipeline_model_parallel_size", "comm_overlap.overlap_p2p_comm=false",
             "comm_overlap.batch_p2p_comm=true", "model.cp_comm_type=a2a"}));
  check_sums(d);
  REQUIRE(d.by_change.size() == 2);
  CHECK(d.by_change[0].changes.size() == 3);
  CHECK(d.requested[d.by_change[1].changes.front()].key == "model.cp_comm_type");
}

TEST_CASE("steady microbatches are told from short steps, to a thousandth of the difference") {
  const auto words = [](std::vector<std::string> more) {
    more.push_back("train.global_batch_size=64");
    return read_words("scenarios/llama3.1-8b-8xh100-bf16.json", more);
  };
  const Scenario a = words({}), b = words({"model.apply_rope_fusion=false",
                                           "comm_overlap.overlap_grad_reduce=false",
                                           "model.gradient_accumulation_fusion=false"});
  const Diff whole = difference(a, b);
  DiffOptions cheap;
  cheap.attribution.most_tasks = 4.0 * whole.a.report.tasks;
  const Diff told = difference(a, b, cheap);
  CHECK_FALSE(whole.attribution.shortened);
  CHECK(told.attribution.shortened);
  check_sums(told);
  REQUIRE(told.by_change.size() == 3);
  for (size_t i = 0; i < 3; ++i)
    CHECK(std::abs(told.by_change[i].delta_seconds - whole.by_change[i].delta_seconds) <=
          1e-3 * std::abs(whole.delta_seconds));
  // Too dear even so: random orders, with their errors.
  cheap.attribution.most_tasks = 1;
  const Diff sampled = difference(a, b, cheap);
  CHECK(sampled.attribution.orders == 6);
  CHECK(sampled.attribution.errors.size() == 3);
  check_sums(sampled);
}

TEST_CASE("bisect: the smallest set, by hand") {
  Diff d;
  d.delta_seconds = 10;
  d.attribution.players = {{0}, {1}, {2}};
  for (size_t i = 0; i < 3; ++i) d.by_change.push_back({{i}, 0, 0, {}});
  // By set of players: the third alone 6, the first two together 9.5, all 10.
  d.attribution.values = {100, 101, 102, 109.5, 106, 107, 107.5, 110};
  const DataPaths data = find_data();
  const Bisection half = bisect(d, 0.5, data), most = bisect(d, 0.9, data),
                  all = bisect(d, 1, data);
  CHECK(half.shares == std::vector<size_t>{2});
  CHECK(half.explained_seconds == doctest::Approx(6));
  CHECK(half.left_seconds == doctest::Approx(9.5));
  CHECK(most.shares == std::vector<size_t>{0, 1});
  CHECK(all.shares == std::vector<size_t>{0, 1, 2});
  // Of equally small sets the one that explains most; the other is named.
  const Bisection two = bisect(d, 0.72, data);
  CHECK(two.shares == std::vector<size_t>{0, 1});
  REQUIRE(two.as_small.size() == 1);
  CHECK(two.as_small[0] == std::vector<size_t>{1, 2});
  // A step that became faster is explained the same way.
  for (double& v : d.attribution.values) v = 200 - v;
  d.delta_seconds = -10;
  CHECK(bisect(d, 0.5, data).shares == std::vector<size_t>{2});
}

TEST_CASE("limits") {
  Gate gate;
  read_fail_above(gate, "2 %", "/x");
  CHECK(*gate.most_relative == doctest::Approx(0.02));
  read_fail_above(gate, "50 ms", "/x");
  CHECK(*gate.most_seconds == doctest::Approx(0.05));
  for (const char* bad : {"2", "-1%", "%", "x%", "2%%", "5 GiB", ""})
    CHECK_THROWS_AS(read_fail_above(gate, bad, "/x"), Error);
  CHECK_THROWS_AS(read_fail_on(gate, "silnt", "/x"), Error);
  Diff d;
  d.a.report.step_seconds = 1;
  d.b.report.step_seconds = 1.02;
  d.delta_seconds = 0.02;
  Gate tight;
  tight.most_relative = 0.0199;
  CHECK(misses(d, tight).size() == 1);
  tight.most_relative = 0.0201;
  CHECK(misses(d, tight).empty());
  CHECK(misses(d, {}).empty());
}
