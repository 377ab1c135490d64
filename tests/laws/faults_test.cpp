// Laws of injected faults: what a straggler costs, whom it reaches, whose idle is skew.
#include <doctest/doctest.h>

#include <limits>

#include "sim/base/error.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;
using nlohmann::json;

namespace {

json with_faults(json scenario, const json& faults) {
  scenario["cluster"]["faults"] = faults;
  return scenario;
}

/// Given costs 1 and 2 of PP stages and `microbatches`, with faults and nothing of a machine.
Scenario given_with_faults(int pp, int microbatches, const json& faults) {
  return read(with_faults({{"costs", {{"forward_seconds", 1}, {"backward_seconds", 2}}},
                           {"model", {{"pipeline_model_parallel_size", pp}}},
                           {"train", {{"global_batch_size", microbatches}}}},
                          faults));
}

void check_faults_fold(const Scenario& s, bool sharing) {
  const Report folded = step_of(s, {.unfold = false, .sharing = sharing}).report;
  const Report whole = step_of(s, {.unfold = true, .sharing = sharing}).report;
  CHECK(relative(folded.step_seconds, whole.step_seconds) <= 1e-12);
  for (size_t c = 0; c < cause_count; ++c) {
    INFO(name(static_cast<Cause>(c)));
    CHECK(std::abs(folded.ledger.seconds[c] - whole.ledger.seconds[c]) <=
          1e-9 * whole.step_seconds);
  }
  for (const Report* r : {&folded, &whole})
    for (const DeviceReport& d : r->devices) {
      CHECK(relative(d.ledger.sum(), r->step_seconds) <= 1e-9);
      for (double seconds : d.ledger.seconds) CHECK(seconds >= -1e-12);
    }
}

}  // namespace

// The known case: rank 1 of 4 stalls for 200 ms in backward and the gradient all-reduce makes all
// wait. Timers around backward cannot tell who is late; the critical path can.
TEST_CASE("a straggler of 200 ms under data parallelism: equal backward times, one owner") {
  const Scenario s = read_scenario("scenarios/straggler-4xh100-ddp.json", {}, "", data());
  const Report whole = step_of(s, {.unfold = true}).report;
  REQUIRE(whole.devices.size() == 4);
  const double late = whole.devices[1].phases.backward_seconds;
  for (const DeviceReport& d : whole.devices) {
    CHECK(std::abs(d.phases.backward_seconds - late) < 2e-3);
    CHECK(d.phases.forward_seconds + d.phases.backward_seconds + d.phases.optimizer_seconds ==
          doctest::Approx(whole.step_seconds).epsilon(1e-9));
  }
  REQUIRE(whole.faults.has_value());
  CHECK(whole.faults->critical_rank == 1);
  REQUIRE(whole.faults->late.size() == 1);
  CHECK(whole.faults->late[0].rank == 1);
  CHECK(whole.faults->late[0].late_seconds == doctest::Approx(0.2).epsilon(1e-9));
  // Removing it saves the 200 ms: none of it was under something else.
  const double saved = whole.step_seconds - whole.faults->sound_step_seconds;
  CHECK(std::abs(saved - 0.2) < 2e-3);
  Scenario sound = without_faults(s);
  CHECK(seconds_of(sound) == whole.faults->sound_step_seconds);
  // Whoever waits for it idles for 200 ms more, which is skew; the straggler's is compute.
  for (const DeviceReport& d : whole.devices) {
    CAPTURE(d.rank);
    CHECK(d.ledger[Cause::skew] == doctest::Approx(d.rank == 1 ? 0.0 : saved).epsilon(1e-6));
    CHECK(d.ledger[Cause::bubble] < 1e-6);
  }
  // Two devices say the same: the late rank and one of the three alike.
  const Report folded = step_of(s).report;
  REQUIRE(folded.devices.size() == 2);
  CHECK(folded.devices[0].represents == 3);
  CHECK(relative(folded.step_seconds, whole.step_seconds) <= 1e-12);
}

// 1F1B of 4 stages and 8 microbatches, forward 1 and backward 2; stage 1 at half speed (2 and 4).
// By hand: it starts at 1 and does forwards 0 to 2 until 7, waits until 9 for stage 2's first
// backward (stage 3 runs it from 5 to 7, stage 2 from 7 to 9), and from then on never waits: 8
// backwards and 5 forwards more make 9 + 32 + 10 = 51; stage 0's last backward ends at 53. Without
// the fault every stage is idle for 3 (p-1) = 9 of 33.
TEST_CASE("idle that a slow stage causes is skew wherever it lands, and no bubble") {
  const Report r =
      step_of(given_with_faults(4, 8, {{{"rank", 1}, {"compute_factor", 0.5}}})).report;
  CHECK(r.step_seconds == doctest::Approx(53));
  REQUIRE(r.devices.size() == 4);
  for (const DeviceReport& d : r.devices) {
    CAPTURE(d.rank);
    const bool slow = d.rank == 1;
    CHECK(d.ledger[Cause::compute] == doctest::Approx(slow ? 48 : 24));
    CHECK(d.ledger[Cause::bubble] == doctest::Approx(slow ? 5 : 9));
    CHECK(d.ledger[Cause::skew] == doctest::Approx(slow ? 0 : 20));
    CHECK(d.ledger.sum() == doctest::Approx(53));
  }
  REQUIRE(r.faults.has_value());
  CHECK(r.faults->sound_step_seconds == doctest::Approx(33));
  CHECK(r.faults->critical_rank == 1);
}

// A stall is felt once where nothing else is slack: each of 4 microbatches on the one stage.
TEST_CASE("delays add once a pass or once a step") {
  const auto seconds = [](const json& fault) {
    return seconds_of(given_with_faults(1, 4, json::array({fault})));
  };
  CHECK(seconds({{"rank", 0}, {"delay_per_step", "500 ms"}}) == doctest::Approx(12.5));
  CHECK(seconds({{"rank", 0}, {"delay_per_forward", "500 ms"}}) == doctest::Approx(14));
  CHECK(seconds({{"rank", 0}, {"delay_per_backward", "0.25 s"}}) == doctest::Approx(13));
  CHECK(seconds({{"rank", 0}, {"compute_factor", 0.8}}) == doctest::Approx(15));
}

TEST_CASE("law: folded equals unfolded with a straggler, a slow NIC or NVLink, and with jitter") {
  const std::vector<json> faults{
      {{{"rank", 1}, {"compute_factor", 0.7}}},
      {{{"gpu", 5}, {"delay_per_backward", "3 ms"}}},
      {{{"gpu", 6}, {"nic_factor", 0.2}}},
      {{{"rank", 2}, {"nvlink_factor", 0.3}}},
      {{{"nic", "node0.nic3"}, {"bandwidth_factor", 0}}},
      {{{"rank", 0}, {"delay_per_step", "5 ms"}}, {{"rank", 7}, {"compute_factor", 0.9}}}};
  int ran = 0;
  for (const Layout& l :
       {Layout{.dp = 8}, Layout{.tp = 2, .dp = 4, .pp = 2, .microbatches = 3},
        Layout{.tp = 2, .cp = 2, .dp = 2, .pp = 2, .vp = 2, .microbatches = 2, .sp = true},
        Layout{.tp = 4,
        .dp = 4,
        .microbatches = 2,
        .sp = true,
        .tp_overlap = true,
        .grad_overlap = true,
        .gather_overlap = true},
        Layout{.cp = 2, .dp = 4, .pp = 2, .microbatches = 4, .sharded = false}})
    for (const json& fault : faults)
      for (bool sharing : {true, false}) {
        if (quick() && (ran++ % 5) != 0) continue;
        CAPTURE(l);
        CAPTURE(fault.dump());
        CAPTURE(sharing);
        check_faults_fold(read(with_faults(scenario_json("pythia-160m", "dgx-h100", l), fault)),
                          sharing);
      }
  json jittery = scenario_json("pythia-160m", "dgx-h100", {.tp = 2, .dp = 2, .pp = 2});
  jittery["cluster"]["jitter"] = {{"seed", 7}, {"sigma", 0.05}};
  const Scenario s = read(jittery);
  CHECK(step_of(s).report.devices.size() == 8);
  check_faults_fold(s, true);
}

// TP2 DP4 PP2, rank 0 slow: in each stage rank 0 (or who stands behind it in the pipeline), its TP
// peer, its DP peers and their TP peers: four classes a stage, whatever DP.
TEST_CASE("a straggler parts its peers, and no more") {
  for (int dp : {4, 8, 16}) {
    const Scenario s =
        read(with_faults(scenario_json("pythia-160m", "dgx-h100", {.tp = 2, .dp = dp, .pp = 2}),
                         {{{"rank", 0}, {"compute_factor", 0.5}}}));
    CHECK(step_of(s).report.devices.size() == 8);
  }
  const Scenario alone = read(with_faults(scenario_json("pythia-160m", "dgx-h100", {.dp = 64}),
                                          {{{"rank", 9}, {"compute_factor", 0.5}}}));
  CHECK(step_of(alone).report.devices.size() == 2);
  // All alike slow: one device again.
  json all = scenario_json("pythia-160m", "dgx-h100", {.dp = 8});
  all["cluster"]["slowdown"] = std::vector<double>(8, 1.5);
  CHECK(step_of(read(all)).report.devices.size() == 1);
}

// With given costs no gradients are reduced: the two pipelines of DP2 never wait for each other.
TEST_CASE("a straggler changes nothing of ranks that do not wait for it") {
  json scenario{{"costs", {{"forward_seconds", 1}, {"backward_seconds", 2}}},
                {"cluster", {{"system", "dgx-h100"}, {"gpus", 8}}},
                {"model", {{"pipeline_model_parallel_size", 4}}},
                {"train", {{"global_batch_size", 16}}}};
  const auto finishes = [](const Simulation& simulation, int rank) {
    std::vector<double> list;
    const LoweredStep& step = simulation.lowered;
    for (uint32_t t = 0; t < step.graph.task_count(); ++t)
      if (step.graph.streams[t] != no_stream &&
          step.devices[device_of(step.graph.streams[t])].rank == rank)
        list.push_back(simulation.timeline.finish_seconds[t]);
    return list;
  };
  const Simulation sound = step_of(read(scenario), {.unfold = true});
  const Simulation faulty = step_of(
      read(with_faults(scenario, {{{"rank", 2}, {"compute_factor", 0.5}}})), {.unfold = true});
  // Stages are 2 ranks apart: even ranks are one pipeline, odd ones the other.
  for (int rank : {1, 3, 5, 7}) CHECK(finishes(faulty, rank) == finishes(sound, rank));
  for (int rank : {0, 2, 4, 6}) CHECK(finishes(faulty, rank) != finishes(sound, rank));
}

// A collective inside the domain moves at its slowest member's NVLink: with bytes alone (no
// latency), half of it on one of 8 members costs what half of it on all would.
TEST_CASE("a group moves at its slowest member's NVLink and NIC") {
  const auto seconds = [](const Layout& l, const json& faults) {
    return seconds_of(read(with_faults(scenario_json("pythia-160m", "dgx-h100", l), faults)),
                      apart);
  };
  for (const char* key : {"nvlink_factor", "nic_factor"}) {
    const Layout l{.dp = std::string(key) == "nic_factor" ? 16 : 8, .microbatches = 1};
    json all = json::array();
    for (int r = 0; r < l.dp; ++r) all.push_back({{"rank", r}, {key, 0.5}});
    const double one = seconds(l, {{{"rank", 3}, {key, 0.5}}}), none = seconds(l, json::array());
    CAPTURE(std::string(key));
    CHECK(one > none * 1.01);
    CHECK(one == doctest::Approx(seconds(l, all)).epsilon(1e-12));
  }
  // A NIC that nobody uses: one domain.
  CHECK(seconds({.dp = 8}, {{{"rank", 3}, {"nic_factor", 0.1}}}) ==
        doctest::Approx(seconds({.dp = 8}, json::array())).epsilon(1e-12));
}

// A ring of 8 GPUs without the link between 0 and 1: what crossed it goes the long way round.
TEST_CASE(
    "a removed link of a free-form graph is gone round, a degraded one slows what crosses it") {
  const Layout l{.dp = 8, .microbatches = 1};
  const auto seconds = [&](const json& faults) {
    return seconds_of(read(with_faults(scenario_json("llama3.2-1b", "ring-of-8", l), faults)));
  };
  const double sound = seconds(json::array());
  const double half = seconds({{{"link", {"gpu1", "gpu0"}}, {"bandwidth_factor", 0.5}}});
  const double gone = seconds({{{"link", {"gpu0", "gpu1"}}, {"bandwidth_factor", 0}}});
  CHECK(half > sound);
  CHECK(gone > sound);
  // All links of GPU 3 at half rate are as bad as one: the ring's pace is its slowest link's.
  CHECK(seconds({{{"gpu", 3}, {"nic_factor", 0.5}}}) == doctest::Approx(half).epsilon(1e-9));
}

// GPU 3 has a slow NVLink and its peers move at its pace: their kernels lose more to
// communication beside them, but nobody computes for longer than the fault says.
TEST_CASE("law: a degraded port makes the step longer and no rank late") {
  int longer = 0;
  for (const Layout& l : {Layout{.tp = 2, .cp = 2, .dp = 2, .sp = true, .tp_overlap = true},
                          Layout{.tp = 2, .dp = 2, .pp = 2, .microbatches = 4, .sp = true},
                          Layout{.dp = 16, .grad_overlap = true, .gather_overlap = true}})
    for (const char* key : {"nvlink_factor", "nic_factor"}) {
      const Report r = step_of(read(with_faults(scenario_json("pythia-160m", "dgx-h100", l),
                                                {{{"gpu", 3}, {key, 0.3}}})))
                           .report;
      CAPTURE(l);
      REQUIRE(r.faults.has_value());
      CHECK(r.faults->late.empty());
      longer += r.step_seconds > r.faults->sound_step_seconds * 1.01 ? 1 : 0;
    }
  CHECK(longer >= 3);
  // Of a slow GPU and a slow NVLink, the GPU is late.
  const Report r =
      step_of(read(with_faults(
                  scenario_json("pythia-160m", "dgx-h100", {.tp = 2, .cp = 2, .dp = 2, .sp = true}),
                  {{{"gpu", 3}, {"nvlink_factor", 0.3}}, {{"gpu", 1}, {"compute_factor", 0.8}}})))
          .report;
  REQUIRE(r.faults->late.size() == 1);
  CHECK(r.faults->late[0].rank == 1);
}

// Readers refuse what makes such times; whoever fills a Scenario otherwise gets an Error as well.
TEST_CASE("a step of no finite time is refused, not reported") {
  Scenario given = given_with_faults(2, 4, json::array());
  given.costs->forward_seconds.assign(2, 1e308);
  CHECK_THROWS_AS(simulate(given), Error);
}

TEST_CASE("law: faults never speed a step up, and the sound twin is the step without them") {
  for (const Layout& l : {Layout{.tp = 2, .dp = 2, .pp = 2, .sp = true},
                          Layout{.dp = 16, .grad_overlap = true, .gather_overlap = true}}) {
    const json plain = scenario_json("pythia-160m", "dgx-h100", l);
    const double sound = seconds_of(read(plain), apart);
    for (const char* text :
         {R"({"rank": 1, "compute_factor": 0.6})", R"({"gpu": 2, "nvlink_factor": 0.1})",
          R"({"gpu": 2, "nic_factor": 0.1})", R"({"rank": 0, "delay_per_forward": "1 ms"})"}) {
      CAPTURE(std::string(text));
      const Report r =
          step_of(read(with_faults(plain, json::array({json::parse(text)}))), apart).report;
      REQUIRE(r.faults.has_value());
      CHECK(r.faults->sound_step_seconds == sound);
      CHECK(r.step_seconds >= sound * (1 - 1e-12));
    }
  }
}
