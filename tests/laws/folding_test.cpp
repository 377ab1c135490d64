// Law: one device a class of ranks that behave alike takes the same time as every rank.
#include <doctest/doctest.h>

#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

void check_alike(const Report& folded, const Report& whole) {
  CHECK(relative(folded.step_seconds, whole.step_seconds) <= 1e-12);
  CHECK(std::abs(folded.bubble_fraction - whole.bubble_fraction) <= 1e-9);
}

void check_folding(const nlohmann::json& json, bool sharing) {
  const Scenario s = read(json);
  const Simulation folded = step_of(s, {.unfold = false, .sharing = sharing});
  const Simulation whole = step_of(s, {.unfold = true, .sharing = sharing});
  CHECK(whole.report.devices.size() == static_cast<size_t>(s.parallel.world()));
  CHECK(relative(folded.report.step_seconds, whole.report.step_seconds) <= 1e-12);
  // And so do the figures made of it: the mean over all ranks is the weighted mean over classes.
  CHECK(std::abs(folded.report.bubble_fraction - whole.report.bubble_fraction) <= 1e-9);
  for (size_t c = 0; c < cause_count; ++c)
    CHECK(std::abs(folded.report.ledger.seconds[c] - whole.report.ledger.seconds[c]) <=
          1e-9 * whole.report.step_seconds);
  CHECK(folded.report.communication.overall.has_value() ==
        whole.report.communication.overall.has_value());
  if (folded.report.communication.overall)
    CHECK(relative(folded.report.communication.overall->total_seconds,
                   whole.report.communication.overall->total_seconds) <= 1e-9);
}

}  // namespace

TEST_CASE("law: folded equals unfolded where every group of a kind sits alike") {
  const std::vector<Layout> sizes{
      {.tp = 8, .dp = 1},
      {.tp = 2, .cp = 2, .dp = 2},
      {.dp = 8},
      {.cp = 8},
      {.tp = 8, .dp = 2},
      {.tp = 4, .cp = 2, .dp = 2},
      {.tp = 4, .dp = 2, .pp = 2, .microbatches = 3},
      {.tp = 2, .cp = 2, .dp = 2, .pp = 2, .vp = 2, .microbatches = 2},
      {.tp = 2, .dp = 4, .pp = 4, .vp = 2, .microbatches = 4},
      {.tp = 4, .cp = 2, .dp = 2, .pp = 2, .vp = 3, .microbatches = 4},
      {.tp = 8, .pp = 4, .microbatches = 5},
      {.tp = 2, .dp = 16, .pp = 1},
  };
  int ran = 0;
  for (const Layout& size : sizes)
    for (int switches = 0; switches < 8; ++switches) {
      Layout l = size;
      l.sp = l.tp > 1 && (switches & 1) != 0;
      l.tp_overlap = l.sp && (switches & 2) != 0;
      l.grad_overlap = l.gather_overlap = (switches & 4) != 0;
      if ((switches & 1) != 0 && !l.sp) continue;
      if ((switches & 2) != 0 && !l.tp_overlap) continue;
      if (quick() && (ran++ % 8) != 0) continue;
      for (bool sharing : {true, false}) {
        CAPTURE(l);
        CAPTURE(sharing);
        check_folding(scenario_json("llama3-8b", "dgx-h100", l), sharing);
      }
    }
}

TEST_CASE(
    "law: folded equals unfolded without the distributed optimizer, with tied embeddings and on "
    "other systems") {
  int ran = 0;
  for (const char* system : {"gb200-nvl72", "dgx-a100", "p5-h100"})
    for (const char* model : {"gpt3-5b", "llama3.2-1b"})
      for (const Layout& l :
           {Layout{.tp = 2, .dp = 4, .pp = 2, .sp = true, .sharded = false, .grad_overlap = true},
            Layout{.tp = 4,
            .dp = 2,
            .pp = 2,
            .vp = 2,
            .microbatches = 4,
            .sp = true,
            .tp_overlap = true,
            .recompute = "uniform"}})
        for (bool sharing : {true, false}) {
          if (quick() && (ran++ % 5) != 0) continue;
          CAPTURE(system);
          CAPTURE(model);
          CAPTURE(l);
          CAPTURE(sharing);
          check_folding(scenario_json(model, system, l), sharing);
        }
}

// Sizes that divide no domain: groups straddle unevenly, ranks differ, and only those that do are
// kept apart.
TEST_CASE("law: folded equals unfolded over a grid of sizes, most of which domains cut unevenly") {
  int visited = 0, compared = 0, uneven = 0;
  for (const char* system : {"dgx-h100", "p5-h100", "jean-zay-a100", "gb200-nvl72"})
    for (int tp : {1, 2, 3, 4, 6})
      for (int cp : {1, 2, 3})
        for (int dp : {1, 2, 3, 4, 6})
          for (int pp : {1, 2, 3, 4})
            for (int vp : {0, 2}) {
              const Layout l{.tp = tp,
                             .cp = cp,
                             .dp = dp,
                             .pp = pp,
                             .vp = vp,
                             .microbatches = vp > 0 ? pp : pp + 1,
                             .sp = tp > 1,
                             .tp_overlap = tp > 1,
                             .grad_overlap = dp > 2,
                             .gather_overlap = dp > 2,
                             .sequence = 4608};
              if (l.world() < 8 || l.world() > 32 || (pp == 1 && vp > 0)) continue;
              if (visited++ % pick(3, 25) != 0) continue;
              CAPTURE(system);
              CAPTURE(l);
              const Scenario s = read(scenario_json("pythia-160m", system, l));
              for (bool sharing : {true, false}) {
                const Report folded = step_of(s, {.unfold = false, .sharing = sharing}).report;
                const Report whole = step_of(s, {.unfold = true, .sharing = sharing}).report;
                check_alike(folded, whole);
                uneven += static_cast<int>(folded.devices.size()) > pp;
              }
              ++compared;
            }
  MESSAGE(compared << " layouts, " << uneven / 2 << " with ranks that differ inside a stage");
  CHECK(compared > pick(250, 30));
  CHECK(uneven > compared / 4);
}

TEST_CASE("law: folded equals unfolded on nodes of 3, 5, 6 and 12 GPUs") {
  struct Case {
    int node;
    Layout layout;
  };
  for (const Case& c : {Case{3, {.tp = 2, .dp = 4}}, Case{6, {.tp = 4, .dp = 3, .sp = true}},
                        Case{6, {.tp = 4, .dp = 3, .sp = true, .tp_overlap = true}},
                        Case{6, {.tp = 2, .cp = 2, .dp = 3, .pp = 2, .microbatches = 3}},
                        Case{5, {.dp = 6, .pp = 2, .microbatches = 2, .grad_overlap = true}},
                        Case{12, {.tp = 4, .dp = 5, .sp = true}},
                        Case{6,
                             {.tp = 2,
                             .dp = 2,
                             .pp = 4,
                             .vp = 2,
                             .microbatches = 4,
                             .sp = true,
                             .grad_overlap = true,
                             .gather_overlap = true}}})
    for (bool sharing : {true, false}) {
      CAPTURE(c.node);
      CAPTURE(c.layout);
      CAPTURE(sharing);
      Scenario s = read(scenario_json("pythia-160m", "dgx-h100", c.layout));
      s.cluster.nvlink_domain = s.cluster.gpus_per_node = s.cluster.nics_per_node = c.node;
      s.cluster.nodes = (s.cluster.gpus + c.node - 1) / c.node;
      const Report folded = step_of(s, {.unfold = false, .sharing = sharing}).report;
      const Report whole = step_of(s, {.unfold = true, .sharing = sharing}).report;
      CHECK(folded.devices.size() < whole.devices.size());
      check_alike(folded, whole);
    }
}

// Leaves of 4 nodes whose uplinks are 8 times narrower: who sits under the same leaf pays less.
TEST_CASE(
    "law: folded equals unfolded under oversubscribed tiers that the layout cuts or respects") {
  int uneven = 0, compared = 0, ran = 0;
  for (int radix : {2, 3, 4})
    for (const Layout& l :
         {Layout{.tp = 8, .cp = 3, .dp = 2}, Layout{.tp = 8, .cp = 3, .dp = 1, .pp = 2},
          Layout{.tp = 8, .dp = 3, .pp = 2, .microbatches = 3},
          Layout{.tp = 8, .dp = 2, .pp = 3, .microbatches = 3, .grad_overlap = true},
          Layout{.tp = 4, .cp = 2, .dp = 6, .sp = true}, Layout{.tp = 8, .dp = 2, .pp = 4},
          Layout{.tp = 2, .cp = 3, .dp = 4, .pp = 2, .vp = 2, .microbatches = 2}}) {
      CAPTURE(radix);
      CAPTURE(l);
      nlohmann::json json = scenario_json("pythia-160m", "dgx-h100", l);
      json["dataset"]["seq_length"] = 4608;
      json["model"]["max_position_embeddings"] = 4608;
      if (l.tp == 8) json["model"]["hf_config"] = "llama3.2-1b";
      Scenario s = read(json);
      s.cluster.tiers.resize(2);
      s.cluster.tiers[0].radix = radix;
      s.cluster.tiers[0].oversubscription = 8;
      for (bool sharing : {true, false}) {
        if (quick() && (ran++ % 4) != 0) continue;
        const Report folded = step_of(s, {.unfold = false, .sharing = sharing}).report;
        const Report whole = step_of(s, {.unfold = true, .sharing = sharing}).report;
        check_alike(folded, whole);
        uneven += static_cast<int>(folded.devices.size()) > l.pp;
        ++compared;
      }
    }
  CHECK(uneven > 0);
  CHECK(uneven < compared);
}

// GPUs of one NIC reach each other below the leaf: who shares one with whom tells ranks apart.
TEST_CASE("law: folded equals unfolded where several GPUs share a NIC") {
  int uneven = 0, compared = 0;
  for (int node : {4, 6, 8})
    for (int nics : {1, 2, 3})
      for (int domain : {1, 2})
        for (bool rails : {false, true})
          for (const Layout& l : {Layout{.tp = 2, .dp = 12}, Layout{.tp = 2, .dp = 6, .pp = 2},
                                  Layout{.dp = 8, .pp = 3, .microbatches = 3},
                                  Layout{.tp = 3, .dp = 4, .pp = 2, .sequence = 4608},
                                  Layout{.tp = 2, .cp = 2, .dp = 3, .pp = 2},
                                  Layout{.tp = 3, .cp = 2, .dp = 4, .sequence = 4608},
                                  Layout{.dp = 2, .pp = 12, .microbatches = 2}}) {
            if (quick() && (compared % 10) != 0 && ++compared) continue;
            CAPTURE(node);
            CAPTURE(nics);
            CAPTURE(domain);
            CAPTURE(rails);
            CAPTURE(l);
            Scenario s = read(scenario_json("pythia-160m", "dgx-h100", l));
            s.cluster.gpus_per_node = node;
            s.cluster.nics_per_node = nics;
            s.cluster.nvlink_domain = domain;
            s.cluster.rail_optimised = rails;
            s.cluster.nodes = (s.cluster.gpus + node - 1) / node;
            for (Tier& t : s.cluster.tiers) t.latency = 50.0_us;  // a switch is felt
            const Report folded = step_of(s).report;
            const Report whole = step_of(s, {.unfold = true, .sharing = true}).report;
            check_alike(folded, whole);
            uneven += static_cast<int>(folded.devices.size()) > l.pp;
            ++compared;
          }
  CHECK(uneven > 0);
  CHECK(uneven < compared);
}

TEST_CASE("given costs fold to one device a stage whatever the number of stages") {
  const Scenario s = read({{"costs", {{"forward_seconds", 1}, {"backward_seconds", 2}}},
                           {"model", {{"pipeline_model_parallel_size", 3000}}},
                           {"train", {{"global_batch_size", 2}}}});
  CHECK(step_of(s).report.devices.size() == 3000);
}
