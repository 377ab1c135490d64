// Laws on stacks whose layers differ: state-space, attention, MLP and expert layers.
#include <doctest/doctest.h>

#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

TEST_CASE("law: folded equals unfolded on hybrid models, and the ledger adds up") {
  const std::vector<Layout> sizes{
      {.tp = 2, .dp = 2, .layers = 8, .sp = true, .grad_overlap = true},
      {.tp = 2, .dp = 2, .pp = 2, .microbatches = 3, .layers = 5, .sp = true},
      {.cp = 2, .dp = 2, .pp = 2, .vp = 2, .microbatches = 2, .layers = 2, .recompute = "uniform"}};
  for (const char* model : {"nemotron-h-56b", "nemotron-3-super-120b-a12b", "qwen3-next-80b-a3b"})
    for (const Layout& l : sizes) {
      CAPTURE(model);
      CAPTURE(l);
      const Scenario s = read(scenario_json(model, "dgx-h100", l));
      const Simulation folded = step_of(s), whole = step_of(s, {.unfold = true, .sharing = true});
      const double step = whole.report.step_seconds;
      CHECK(whole.report.devices.size() == static_cast<size_t>(s.parallel.world()));
      CHECK(relative(folded.report.step_seconds, step) <= 1e-12);
      for (size_t c = 0; c < cause_count; ++c)
        CHECK(std::abs(folded.report.ledger.seconds[c] - whole.report.ledger.seconds[c]) <=
              1e-9 * step);
      CHECK(relative(whole.report.ledger.sum(), step) < 1e-9);
    }
}
