#include "sim/report/trace.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/report/sample.h"

using namespace stepsim;
using Json = nlohmann::json;

namespace {

Json trace_of(const RanStep& ran) {
  std::ostringstream out;
  write_trace(out, ran.step, ran.timeline);
  return Json::parse(out.str());
}

std::vector<Json> of_phase(const Json& trace, const std::string& phase) {
  std::vector<Json> events;
  for (const Json& e : trace["traceEvents"])
    if (e["ph"] == phase) events.push_back(e);
  return events;
}

}  // namespace

TEST_CASE("a process per device, a thread per stream in use") {
  const Json trace = trace_of(sample_step());
  std::vector<std::string> processes, threads;
  for (const Json& e : of_phase(trace, "M")) {
    if (e["name"] == "process_name") processes.push_back(e["args"]["name"]);
    if (e["name"] == "thread_name" && e["pid"] == 1) threads.push_back(e["args"]["name"]);
  }
  CHECK(processes ==
        std::vector<std::string>{"rank 0, stage 0 (x4 ranks)", "rank 4, stage 1 (x4 ranks)"});
  CHECK(threads == std::vector<std::string>{"compute", "pp send next", "pp recv next"});
}

TEST_CASE("slices carry names and microseconds; tasks without length are left out") {
  SmallStep s(one_device);
  const TaskId a =
      s.add(0, Stream::compute, OpKind::fc1_gemm, 1.0001e-3, {}, {.layer = 12, .microbatch = 3});
  s.add(0, Stream::tp, OpKind::arrive, 0, {a});
  s.compute(0, 2e-9);
  const auto slices = of_phase(trace_of(std::move(s).run()), "X");
  REQUIRE(slices.size() == 2);
  CHECK(slices[0]["name"] == "fc1 gemm forward L12 mb3");
  CHECK(slices[0]["ts"] == 0);
  CHECK(slices[0]["dur"] == 1000.1);
  CHECK(slices[1]["ts"] == 1000.1);
  CHECK(slices[1]["dur"] == 0.002);
}

TEST_CASE(
    "a transfer shows at both ends, with an arrow from sender to receiver inside the slices") {
  const RanStep ran = sample_step();
  const Json trace = trace_of(ran);
  const auto starts = of_phase(trace, "s"), ends = of_phase(trace, "f");
  CHECK(starts.size() == 8);  // 4 microbatches, both ways
  REQUIRE(ends.size() == starts.size());
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> slices;
  for (const Json& e : of_phase(trace, "X"))
    slices[{e["pid"], e["tid"]}].push_back(
        {e["ts"], e["ts"].get<double>() + e["dur"].get<double>()});
  const auto inside = [&](const Json& e) {
    for (const auto& [from, to] : slices[{e["pid"], e["tid"]}])
      if (e["ts"] >= from && e["ts"] < to) return true;
    return false;
  };
  for (size_t i = 0; i < starts.size(); ++i) {
    CHECK(starts[i]["id"] == ends[i]["id"]);
    CHECK(starts[i]["pid"] != ends[i]["pid"]);
    CHECK(starts[i]["ts"] < ends[i]["ts"]);
    CHECK(inside(starts[i]));
    CHECK(inside(ends[i]));
  }
  // Slices of one stream follow each other.
  for (auto& [thread, list] : slices) {
    std::sort(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); ++i) CHECK(list[i - 1].second <= list[i].first + 1e-6);
  }
}

TEST_CASE("activation memory rises when a task starts and falls when one finishes") {
  const auto counters = of_phase(trace_of(sample_step()), "C");
  REQUIRE(counters.size() == 2);
  CHECK(counters[0]["args"]["bytes"] == 5 * sample_gib);
  CHECK(counters[0]["ts"] == 0);
  CHECK(counters[1]["args"]["bytes"] == 0);
}

TEST_CASE("an empty step is still valid JSON") {
  SmallStep s(one_device);
  CHECK(of_phase(trace_of(std::move(s).run()), "X").empty());
}
