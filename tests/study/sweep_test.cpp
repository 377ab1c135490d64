// Sweeps: what is varied, in which order, and that rows depend on nothing but the scenario.
#include "sim/study/sweep.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace stepsim;

namespace {

std::vector<std::string> values_of(const Axis& axis) {
  std::vector<std::string> values;
  for (const Point& p : axis.points) values.push_back(p.front().value);
  return values;
}
using Words = std::vector<std::string>;

Words texts(const std::vector<Point>& points) {
  Words out;
  for (const Point& p : points) out.push_back(point_text(p));
  return out;
}

/// A pipeline of given costs: no model, no machine, and a step known by hand.
Experiment blackboard() {
  return {.file = "scenarios/1f1b-4x8.json", .words = {}, .cluster = "", .data = find_data()};
}

std::string refusal_of(const std::string& text) {
  try {
    parse_axis(text, "--vary");
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("axes: lists, ranges with both ends, steps and factors") {
  CHECK(values_of(parse_axis("a=1,2,x", "--vary")) == Words{"1", "2", "x"});
  CHECK(values_of(parse_axis("a=1..4", "--vary")) == Words{"1", "2", "3", "4"});
  CHECK(values_of(parse_axis("a=0..32+16", "--vary")) == Words{"0", "16", "32"});
  CHECK(values_of(parse_axis("a=1..8*2", "--vary")) == Words{"1", "2", "4", "8"});
  CHECK(values_of(parse_axis("a=1..7*2,null", "--vary")) == Words{"1", "2", "4", "null"});
  CHECK(values_of(parse_axis("a=[x,y],\"b,c\"", "--vary")) == Words{"[x,y]", "\"b,c\""});
  for (const char* bad : {"a", "a=", "=1", "a=1,", "a=4..1", "a=1..", "a=1..8*1", "a=0..8*2",
                          "a=1..9999999999", "a=0..900000000"})
    CHECK_MESSAGE(!refusal_of(bad).empty(), bad);
}

TEST_CASE("axes: the last one is fastest; zipped ones advance together") {
  const std::vector<Axis> two{parse_axis("a=1,2", "--vary"), parse_axis("b=x,y", "--vary")};
  CHECK(texts(product(two)) == Words{"a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"});
  CHECK(texts(zipped(two).points) == Words{"a=1 b=x", "a=2 b=y"});
  CHECK_THROWS_AS(zipped(std::vector<Axis>{two[0], parse_axis("b=1", "--zip")}), Error);
  CHECK_THROWS_AS(keys_of(std::vector<Axis>{two[0], two[0]}), Error);
  const Axis many = parse_axis("a=1..1000", "--vary");
  CHECK_THROWS_AS(product(std::vector<Axis>{many, many}), Error);
}

TEST_CASE("points from a file: nested keys, dotted keys, a YAML list") {
  const auto file = std::filesystem::temp_directory_path() / "stepsim-points.yaml";
  std::ofstream(file) << "- {a.b: 4, cluster: dgx-h100:2}\n- c:\n    d: [1, 2]\n  e: x\n";
  const Axis axis = read_axis(file);
  CHECK(texts(axis.points) == Words{"a.b=4 cluster=dgx-h100:2", "c.d=[1,2] e=x"});
  std::string cluster;
  CHECK(override_words(axis.points[0], cluster) == Words{"a.b=4"});
  CHECK(cluster == "dgx-h100:2");
  std::filesystem::remove(file);
}

TEST_CASE("rows: 1F1B of p stages and m microbatches takes (m + p - 1)(f + b)") {
  // f = 1 ms, b = 2 ms: 4 stages and 4, 8 and 16 microbatches take 21, 33 and 57 ms.
  const std::vector<Axis> axes{parse_axis("train.global_batch_size=4,8,16,oops", "--vary")};
  const Sweep one = sweep(blackboard(), axes, {.threads = 1});
  REQUIRE(one.rows.size() == 4);
  CHECK(one.rows[0].figures.step_seconds == doctest::Approx(21e-3));
  CHECK(one.rows[1].figures.step_seconds == doctest::Approx(33e-3));
  CHECK(one.rows[2].figures.step_seconds == doctest::Approx(57e-3));
  CHECK(one.rows[1].figures.cause == "bubble");
  CHECK(one.rows[1].figures.cause_share == doctest::Approx(3.0 / 11));
  CHECK(one.rows[3].outcome.failed());
  CHECK(one.rows[3].outcome.failure_pointer == "/train/global_batch_size");

  // Threads and a journal change nothing, and what is in it is not simulated again.
  std::string journal = journal_header(blackboard());
  SweepRun run{.threads = 3};
  run.done = [&](const SweepRow& row) {
    journal += journal_line(point_text(row.point), row.outcome);
  };
  const Sweep three = sweep(blackboard(), axes, run);
  CHECK(sweep_json(three) == sweep_json(one));
  CHECK(sweep_text(three) == sweep_text(one));
  const std::string torn = journal.substr(0, journal.size() - 5);
  CHECK(read_journal(torn, "j", blackboard()).size() == 3);
  SweepRun again{.threads = 2};
  again.known = read_journal(journal, "j", blackboard());
  CHECK(again.known.size() == 4);
  CHECK(sweep_csv(sweep(blackboard(), axes, again)) == sweep_csv(one));
  Experiment other = blackboard();
  other.words.push_back("train.micro_batch_size=1");
  CHECK_THROWS_AS(read_journal(journal, "j", other), Error);
}

TEST_CASE("an interrupt leaves what is not done open; contracts of the tables") {
  const std::vector<Axis> axes{parse_axis("train.global_batch_size=4,8", "--vary"),
                               parse_axis("pipeline.schedule=1f1b,gpipe", "--vary")};
  int done = 0;
  SweepRun run{.threads = 1};
  run.stop = [&] { return done == 3; };
  run.done = [&](const SweepRow&) { ++done; };
  const Sweep part = sweep(blackboard(), axes, run);
  CHECK(!part.complete());
  CHECK(part.rows[2].done);
  CHECK(!part.rows[3].done);
  const auto json = nlohmann::json::parse(sweep_json(part));
  CHECK(json["complete"] == false);
  CHECK(json["vary"] == nlohmann::json{"train.global_batch_size", "pipeline.schedule"});
  REQUIRE(json["rows"].size() == 3);
  CHECK(json["rows"][0]["values"]["train.global_batch_size"] == 4);
  CHECK(json["rows"][0]["report"]["step_time_seconds"] == doctest::Approx(21e-3));
  CHECK(json["rows"][0]["failure"].is_null());
  CHECK(sweep_svg(part).starts_with("<svg"));
  CHECK(sweep_text(part).find("not run") != std::string::npos);
  // A key that nothing reads, and what is wrong with every point.
  CHECK_THROWS_AS(sweep(blackboard(), {parse_axis("model.no_such=1,2", "--vary")}, {}), Error);
  CHECK_THROWS_AS(sweep(blackboard(), {parse_axis("cluster.nodes=1,2", "--vary")}, {}), Error);
}
