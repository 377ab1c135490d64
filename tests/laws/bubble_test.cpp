// Laws of pipelines with given times: bubbles and makespans equal their closed forms.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

constexpr double forward_seconds = 1e-3, backward_seconds = 2.5e-3;

nlohmann::json pipeline(const std::string& schedule, int p, int m, int v) {
  nlohmann::json s;
  s["model"]["pipeline_model_parallel_size"] = p;
  if (schedule == "interleaved") s["model"]["virtual_pipeline_model_parallel_size"] = v;
  s["pipeline"]["schedule"] = schedule;
  s["train"] = {{"global_batch_size", m}, {"micro_batch_size", 1}};
  s["costs"] = {{"forward_seconds", forward_seconds}, {"backward_seconds", backward_seconds}};
  return s;
}

}  // namespace

// Narayanan et al. 2021, section 2.2: bubble over ideal time (p-1)/m, so over the step
// (p-1)/(m+p-1); a step takes (m+p-1)(F+B).
TEST_CASE("law: GPipe and 1F1B idle for (p-1)/(m+p-1) of the step") {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (int p : {1, 2, 3, 4, 7, 8, 16, 32})
      for (int m : {1, 2, 3, 5, 8, 16, 61}) {
        CAPTURE(schedule);
        CAPTURE(p);
        CAPTURE(m);
        const Report r = step_of(read(pipeline(schedule, p, m, 1))).report;
        const double slots = m + p - 1;
        CHECK(std::abs(r.bubble_fraction - (p - 1) / slots) < 1e-9);
        CHECK(relative(r.step_seconds, slots * (forward_seconds + backward_seconds)) < 1e-9);
        for (const DeviceReport& d : r.devices)
          CHECK(std::abs(d.ledger[Cause::bubble] - (p - 1) * (forward_seconds + backward_seconds)) <
                1e-9);
      }
}

// Narayanan et al. 2021, section 2.2.2: interleaving divides the bubble by v. Whole groups of p
// microbatches.
TEST_CASE("law: interleaved 1F1B idles for (p-1)/(v*m+p-1) of the step") {
  for (int p : {2, 3, 4, 8})
    for (int groups : {1, 2, 3, 5})
      for (int v : {1, 2, 3, 4, 7}) {
        const int m = groups * p;
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(v);
        const Report r = step_of(read(pipeline("interleaved", p, m, v))).report;
        const double slots = v * m + p - 1;
        CHECK(std::abs(r.bubble_fraction - (p - 1) / slots) < 1e-9);
        CHECK(relative(r.step_seconds, slots * (forward_seconds + backward_seconds)) < 1e-9);
      }
}

// Messages delay the fill, the drain and every steady round trip between neighbours. Five public
// engines agree on the figure to the last digit; without messages it is (m + p - 1)(F + B) = 1.725
// s.
TEST_CASE("law: 64 stages, 512 microbatches, F 1 ms, B 2 ms, messages of 50 us take 1.781600 s") {
  const Scenario s = read_scenario("scenarios/1f1b-64x512.json", {}, "", data());
  const Simulation r = step_of(s);
  CHECK(std::abs(r.report.step_seconds - 1.781600) < 1e-9);
  CHECK(r.report.devices.size() == 64);
  // Tightness: a message that takes any time delays the step.
  Scenario free = s;
  free.costs->p2p_seconds.assign(64, 0);
  CHECK(std::abs(seconds_of(free) - 575 * 3e-3) < 1e-9);
}

TEST_CASE("law: stages that cost nothing but their messages take (p-1) messages each way") {
  nlohmann::json json = pipeline("1f1b", 5, 1, 1);
  json["costs"] = {{"forward_seconds", 0.0}, {"backward_seconds", 0.0}, {"p2p_seconds", 0.25}};
  CHECK(relative(seconds_of(read(json)), 2 * 4 * 0.25) < 1e-12);
}

// Virtual stage = chunk x PP + rank: a microbatch visits them in that order and pays each link
// between two of them once forward and once backward.
TEST_CASE("law: messages take the time of the link that they cross") {
  nlohmann::json json = pipeline("interleaved", 2, 2, 2);
  json["costs"] = {
      {"forward_seconds", 0.0}, {"backward_seconds", 0.0}, {"p2p_seconds", {0.1, 0.2, 0.4, 0.8}}};
  json["train"]["global_batch_size"] = 2;
  // Two microbatches, one after the other on each link; the last link leads nowhere.
  const double way = 0.1 + 0.2 + 0.4;
  CHECK(seconds_of(read(json)) >= 2 * way);
  json["costs"]["p2p_seconds"] = {0.0, 0.0, 0.0, 9.0};
  CHECK(seconds_of(read(json)) == 0);
  nlohmann::json plain = pipeline("1f1b", 3, 1, 1);
  plain["costs"] = {
      {"forward_seconds", 0.0}, {"backward_seconds", 0.0}, {"p2p_seconds", {0.25, 0.5, 7.0}}};
  CHECK(relative(seconds_of(read(plain)), 2 * 0.75) < 1e-12);
}
