#include "sim/report/html.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "sim/report/html_parts.h"
#include "tests/report/sample.h"
#include "tests/support/page_column.h"

using namespace stepsim;

namespace {

nlohmann::json sample_data() {
  const Scenario scenario = sample_scenario();
  const RanStep ran = sample_step();
  return nlohmann::json::parse(
      page_data(scenario, ran.step, ran.timeline, make_report(scenario, ran.step, ran.timeline)));
}

double sum(const nlohmann::json& packed) {
  const std::vector<int64_t> list = test::page_column(packed);
  return std::accumulate(list.begin(), list.end(), 0.0);
}

/// Of the page, what stands between its data block's tags.
std::string block_of(const std::string& page) {
  const std::string open = R"(<script type="application/json" id="data">)";
  const size_t from = page.find(open) + open.size();
  return page.substr(from, page.find("</script>", from) - from);
}

}  // namespace

// Two stages, four microbatches: 1F1B by hand (Narayanan et al. 2021, figure 4), forward 0.25 s,
// backward 0.5 s, transfers 0.125 s. Every label is microbatch 0's, so one block each would be
// wrong only in number; what is checked here are sums.
TEST_CASE("law: blocks less their idle, and the waits between, fill each device's step") {
  const nlohmann::json data = sample_data(), timeline = data["timeline"];
  const double tick = timeline["tick_seconds"];
  const double step = data["report"]["step_time_seconds"];
  REQUIRE(timeline["devices"].size() == 2);
  for (const nlohmann::json& d : timeline["devices"]) {
    const double length = d["end"].get<double>() - d["begin"].get<double>();
    CHECK(length * tick == doctest::Approx(step).epsilon(1e-7));
    CHECK(std::abs(sum(d["blocks"]["length"]) + sum(d["waits"]["length"]) - length) <= 4);
    const nlohmann::json& ledger = data["report"]["devices"][d["device"].get<size_t>()]["ledger"];
    const double busy = (sum(d["blocks"]["length"]) - sum(d["blocks"]["idle"])) * tick;
    CHECK(busy == doctest::Approx(ledger["compute"].get<double>() * step).epsilon(1e-6));
  }
}

TEST_CASE("law: a column reads back as it was; a steady alternation takes a handful of numbers") {
  using Column = std::vector<int64_t>;
  for (const Column& column :
       {Column{}, Column{7}, Column{1, 2}, Column{0, -5, 3, 3, 9, 9, 9, 1}, Column(50, 4)})
    CHECK(test::page_column(nlohmann::json::parse(column_json(column).dump())) == column);
  CHECK(column_json({3, 1, 4, 1}).is_array());  // runs would be longer
  // F and B in turn, as microbatches of 1F1B: 5 0 6 1 7 2 ... each two places on one more.
  Column pairs;
  for (int64_t i = 0; i < 100; ++i) pairs.insert(pairs.end(), {i + 5, i});
  const Json packed = column_json(pairs);
  CHECK(packed.at("lag") == 2);
  CHECK(packed.at("runs") == Json({1, 5, 1, 0, 198, 1}));
  CHECK(test::page_column(nlohmann::json::parse(packed.dump())) == pairs);
}

TEST_CASE("the critical path on the page begins with the step, ends with it and has no gap") {
  const nlohmann::json timeline = sample_data()["timeline"], path = timeline["path"];
  REQUIRE(path["start"].size() > 1);
  CHECK(path["start"][0] == 0);
  CHECK(path["finish"].back() == timeline["finish"]);
  for (size_t i = 1; i < path["start"].size(); ++i)
    CHECK(path["start"][i] == path["finish"][i - 1]);
}

TEST_CASE("every task is in the file when there are few; a transfer shows at both ends") {
  const nlohmann::json detail = sample_data()["detail"];
  REQUIRE(detail["windows"].size() == 1);
  std::map<std::pair<int, std::string>, size_t> counts;
  for (const nlohmann::json& s : detail["windows"][0]["streams"]) {
    counts[{s["device"], s["stream"]}] = s["gap"].size();
    for (const char* column : {"length", "op", "layer", "scope", "wait"})
      CHECK(s[column].size() == s["gap"].size());
  }
  CHECK(counts.at({0, "compute"}) == 8);
  CHECK(counts.at({1, "compute"}) == 8);
  CHECK(counts.at({0, "pp send next"}) == 4);
  CHECK(counts.at({1, "pp recv prev"}) == 4);
  CHECK(counts.at({1, "pp send prev"}) == 4);
  CHECK(detail["tasks"] == 32);
}

TEST_CASE("a task names what held it up: another of the file, or nothing but the one before") {
  const nlohmann::json window = sample_data()["detail"]["windows"][0];
  // Stage 1's first forward waits for the transfer of stage 0's, which is device 0's pp send next.
  size_t first_of_send = 0, count = 0;
  nlohmann::json waiting;
  for (const nlohmann::json& s : window["streams"]) {
    if (s["device"] == 0 && s["stream"] == "pp send next") first_of_send = count;
    if (s["device"] == 1 && s["stream"] == "compute") waiting = s["wait"];
    count += s["gap"].size();
  }
  CHECK(waiting[0] == first_of_send + 1);
  CHECK(std::count(waiting.begin(), waiting.end(), 0) > 0);
}

TEST_CASE("memory rises when a task starts and falls when one finishes") {
  const nlohmann::json memory = sample_data()["memory"], row = memory["rows"][0];
  // 5 GiB from the start on, until the third task ends; in MiB, each from the one before.
  CHECK(row["activations"] == nlohmann::json({5 * 1024, -5 * 1024}));
  CHECK(row["parameters"] == 10 * sample_gib);
  CHECK(memory["capacity_bytes"] == 80 * sample_gib);
  // 20 GiB are the peak, 5 of them live by the schedule: the rest is the working memory of a layer.
  CHECK(row["working"] == 15 * sample_gib);
}

TEST_CASE("law: groups written as steps are the mesh's") {
  Scenario s = sample_scenario();
  s.parallel = {.tp = 2, .pp = 3, .cp = 2, .dp = 4, .vp = {}};
  s.parallel.experts = true;
  s.parallel.ep = 4;
  s.model.moe.experts = 8;
  const RanStep ran = sample_step();
  const Drawing drawing{.scenario = s,
                        .step = ran.step,
                        .timeline = ran.timeline,
                        .end = {},
                        .blocks = {},
                        .devices = {}};
  const nlohmann::json placement = nlohmann::json::parse(placement_json(drawing).dump());
  const Mesh mesh(s.parallel);
  const std::map<std::string, GroupKind> kinds{{"tp", GroupKind::tp},  {"cp", GroupKind::cp},
                                               {"dp", GroupKind::dp},  {"dp_cp", GroupKind::dp_cp},
                                               {"pp", GroupKind::pp},  {"ep", GroupKind::ep},
                                               {"edp", GroupKind::edp}};
  CHECK(placement["groups"].size() == kinds.size());
  for (const nlohmann::json& g : placement["groups"]) {
    CAPTURE(g.dump());
    for (int rank = 0; rank < s.parallel.world(); ++rank) {
      int base = rank;
      for (const nlohmann::json& step : g["steps"])
        base -= rank / step[1].get<int>() % step[0].get<int>() * step[1].get<int>();
      std::vector<int> members{base};
      for (const nlohmann::json& step : g["steps"]) {
        std::vector<int> more;
        for (int i = 0; i < step[0]; ++i)
          for (const int m : members) more.push_back(m + i * step[1].get<int>());
        members = more;
      }
      std::sort(members.begin(), members.end());
      CHECK(members == mesh.group(kinds.at(g["kind"]), rank));
    }
  }
}

TEST_CASE("nothing in the data can end its block or be taken for a place to fill") {
  const nlohmann::json hostile{
      {"name", "</script><script>alert(1)</script><!-- {{program}} {{style}} \u202e\" '"}};
  const std::string page = html_page(hostile.dump(), "run();");
  CHECK(nlohmann::json::parse(block_of(page)) == hostile);
  CHECK(page.find("alert(1)</script>") == page.npos);
  CHECK(page.find("run();") == page.rfind("run();"));
}

TEST_CASE("the page asks no network for anything and is complete") {
  const Scenario scenario = sample_scenario();
  const RanStep ran = sample_step();
  const std::string page =
      report_html(scenario, ran.step, ran.timeline, make_report(scenario, ran.step, ran.timeline));
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.ends_with("</html>\n"));
  for (const char* word : {"{{", "src=", "@import", "url(", "fetch(", "\nimport ", "\nexport ",
                           "innerHTML", "https://"})
    CHECK_MESSAGE(page.find(word) == page.npos, word);
  CHECK(page.size() < 150000);
}
