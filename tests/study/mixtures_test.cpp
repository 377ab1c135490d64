// Short steps that stand for whole ones, and steps that are known by their graph.
#include "sim/study/mixtures.h"

#include <doctest/doctest.h>

using namespace stepsim;

namespace {

Scenario shipped(const std::string& file, std::vector<std::string> words = {}) {
  return read_scenario("scenarios/" + file + ".json", words, "", find_data());
}

}  // namespace

TEST_CASE("which microbatches a short step has") {
  const Scenario s = shipped("llama3-70b-64xh100-bf16");  // PP 4, 64 microbatches
  CHECK_FALSE(short_steps(s, Rounds::whole));
  const auto one = short_steps(s, Rounds{1}), two = short_steps(s, Rounds{2});
  REQUIRE(one);
  CHECK(one->first == 4);
  CHECK(one->second == 8);
  REQUIRE(two);
  CHECK(two->first == 8);
  CHECK(two->second == 12);
  // 8 microbatches of 4 + 8 save nothing.
  CHECK_FALSE(
      short_steps(shipped("llama3-70b-64xh100-bf16", {"train.global_batch_size=16"}), Rounds{1}));
  // Without a pipeline a round is one microbatch, and the first is not the last.
  const auto flat = short_steps(shipped("llama3.1-8b-8xh100-bf16"), Rounds{1});
  REQUIRE(flat);
  CHECK(flat->first == 2);
  CHECK(flat->second == 3);
  // What is left over of a round stays: 30 = 2 + 7 x 4, in a schedule that takes any number.
  const auto odd = short_steps(shipped("1f1b-4x8", {"train.global_batch_size=30"}), Rounds{1});
  REQUIRE(odd);
  CHECK(odd->first == 6);
  CHECK(odd->second == 10);
}

// 1F1B with forward f, backward b and free transfers takes (m + p - 1)(f + b): told from 4 and 8.
TEST_CASE("a step told from short ones is the whole one") {
  const Scenario s = shipped("1f1b-4x8", {"train.global_batch_size=64"});
  const DocumentPair pair(s, s);
  Mixtures mixtures(pair, find_data(), 1e3, {});
  const double whole = *mixtures.steps({{}}, Rounds::whole).front();
  const double told = *mixtures.steps({{}}, Rounds{1}).front();
  CHECK(told == doctest::Approx(whole).epsilon(1e-12));
  CHECK(mixtures.simulated() == 3);  // 64, 4 and 8 microbatches
}

TEST_CASE("a step alone is that of the report; what does not reach the graph is run once") {
  StepMemo memo;
  const Scenario s = shipped("llama3.1-8b-8xh100-bf16", {"train.global_batch_size=8"});
  const auto report = std::get<Simulation>(simulate(s)).report;
  CHECK(step_seconds(s, memo) == report.step_seconds);
  CHECK(memo.size() == 1);
  Scenario named = s;
  named.name = "another";
  CHECK(step_seconds(named, memo) == report.step_seconds);
  CHECK(memo.size() == 1);
  const Scenario slower = shipped(
      "llama3.1-8b-8xh100-bf16", {"train.global_batch_size=8", "comm_overlap.bucket_size=1000000"});
  CHECK(*step_seconds(slower, memo) > report.step_seconds);
  CHECK(memo.size() == 2);
  // A step that cannot finish is known to be one.
  const Scenario stuck = shipped("1f1b-4x8", {"pipeline.p2p_order=fixed"});
  CHECK_FALSE(step_seconds(stuck, memo));
  CHECK_FALSE(step_seconds(stuck, memo));
  CHECK(memo.size() == 3);
}
