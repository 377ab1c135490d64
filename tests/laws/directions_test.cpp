// Laws of direction: what more microbatches, more chunks and overlap do to a step.
#include <doctest/doctest.h>

#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {}

TEST_CASE("law: more microbatches at the same DP lower the bubble fraction") {
  for (const char* model : {"llama3-8b", "gpt3-5b"})
    for (int vp : {0, 2}) {
      double before = 1;
      for (int m : {4, 8, 16, 32}) {
        CAPTURE(model);
        CAPTURE(vp);
        CAPTURE(m);
        const Layout l{.tp = 2, .dp = 2, .pp = 4, .vp = vp, .microbatches = m, .sp = true};
        const double bubble =
            step_of(read(scenario_json(model, "dgx-h100", l)), apart).report.bubble_fraction;
        CHECK(bubble > 0);
        CHECK(bubble < before);
        before = bubble;
      }
    }
}

TEST_CASE("law: more chunks a rank over the same layers lower the bubble fraction") {
  double before = 1;
  for (int vp : {0, 2, 4, 8}) {
    CAPTURE(vp);
    // 32 layers on 4 ranks, whatever the chunks.
    const Layout l{.tp = 2,
                   .pp = 4,
                   .vp = vp,
                   .microbatches = 8,
                   .layers = vp > 0 ? 8 / vp : 8,
                   .sp = true,
                   .sequence = 8192};
    const double bubble =
        step_of(read(scenario_json("llama3-8b", "dgx-h100", l)), apart).report.bubble_fraction;
    CHECK(bubble < before);
    before = bubble;
  }
}

// Averaging in the collective: otherwise each reduction is preceded by a scaling kernel, which
// overlap moves from the end of the step into the pipeline, where other stages may wait for it.
// Batched messages synchronise the device, reductions included, so plain pipelines are left out
// too.
TEST_CASE("law: with sharing off, overlapped gradient reduction is never slower") {
  int compared = 0, faster = 0, visited = 0;
  for (const char* model : {"llama3-8b", "gpt3-5b", "nemotron4-15b", "llama3.2-1b"})
    for (const char* system : {"dgx-h100", "dgx-a100", "gb200-nvl72", "p5-h100"})
      for (const Layout& l : {Layout{.dp = 16, .layers = 4},
                              Layout{.tp = 2, .cp = 2, .dp = 4, .layers = 2, .sp = true},
                              Layout{.dp = 8, .pp = 2, .vp = 2, .layers = 2},
                              Layout{.dp = 4, .pp = 4, .vp = 2, .microbatches = 8, .layers = 2}})
        for (bool buckets : {false, true}) {
          if (quick() && visited++ % 3 != 0) continue;
          Layout off = l, on = l;
          on.grad_overlap = true;
          CAPTURE(model);
          CAPTURE(system);
          CAPTURE(on);
          CAPTURE(buckets);
          nlohmann::json a = scenario_json(model, system, off),
                         b = scenario_json(model, system, on);
          for (nlohmann::json* j : {&a, &b}) {
            (*j)["ddp"]["average_in_collective"] = true;
            // Many buckets pay their latency many times: compared only where there is one a chunk.
            (*j)["comm_overlap"]["bucket_size"] = buckets ? int64_t{1} << 28 : int64_t{1} << 40;
          }
          const double base = seconds_of(read(a), apart), overlapped = seconds_of(read(b), apart);
          if (!buckets) CHECK(overlapped <= base * (1 + 1e-12));
          ++compared;
          faster += overlapped < base * (1 - 1e-6);
        }
  CHECK(compared == pick(128, 43));
  MESSAGE(faster << " of " << compared << " are faster");
  CHECK(faster >= compared / 2);
}

// On later pipeline ranks the first forward launches its gather, when its input has come; without
// overlap they gather while they wait for it. So the law is of one stage, and of interleaved stages
// that align their gathers.
TEST_CASE("law: with sharing off, parameters gathered under the forward are never slower") {
  for (const char* model : {"llama3-8b", "gpt3-5b"})
    for (const char* system : {"dgx-h100", "gb200-nvl72"})
      for (const Layout& l :
           {Layout{.dp = 16, .layers = 4}, Layout{.tp = 2, .cp = 2, .dp = 2, .layers = 2},
            Layout{.dp = 8, .pp = 2, .vp = 2, .layers = 2}}) {
        Layout off = l, on = l;
        off.grad_overlap = on.grad_overlap = on.gather_overlap = true;
        CAPTURE(model);
        CAPTURE(system);
        CAPTURE(on);
        const double base = seconds_of(read(scenario_json(model, system, off)), apart);
        CHECK(seconds_of(read(scenario_json(model, system, on)), apart) <= base * (1 + 1e-12));
      }
}
