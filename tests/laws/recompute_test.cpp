// What selective and full recompute cost and free, as laws over layouts.
#include <doctest/doctest.h>

#include "sim/report/check.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

std::vector<Layout> recompute_layouts() {
  const std::string current = "bf16_with_fp8_current_scaling_mixed";
  return {
      {.layers = 2},
      {.tp = 4, .dp = 2, .sp = true, .grad_overlap = true, .gather_overlap = true},
      {.tp = 2, .cp = 2, .dp = 2},
      {.tp = 8, .sp = true, .tp_overlap = true},
      {.tp = 2, .pp = 2, .vp = 2, .microbatches = 4, .sp = true, .tp_overlap = true},
      {.dp = 4, .pp = 4, .microbatches = 6, .layers = 3, .sharded = false},
      {.tp = 4, .cp = 2, .pp = 2, .sp = true, .tp_overlap = true, .precision = current},
      {.dp = 2, .micro = 2, .layers = 2, .precision = "bf16_with_fp8_delayed_scaling_mixed"},
  };
}

/// Delayed scaling excludes layernorm.
bool delayed(const Layout& l) { return l.precision.find("delayed") != std::string::npos; }

}  // namespace

// A check sizes the schedule without running it.
TEST_CASE("law: a run and a check of the same scenario agree on memory, to the byte") {
  int compared = 0;
  for (Layout l : recompute_layouts())
    for (const char* recompute : {"none", "core_attn", "mlp", "core_attn+mlp", "mlp+layernorm",
                                  "core_attn+mlp+layernorm", "uniform", "block"}) {
      if (delayed(l) && std::string_view(recompute).ends_with("layernorm")) continue;
      l.recompute = recompute;
      CAPTURE(l);
      const Scenario s = read(scenario_json("llama3.2-1b", "dgx-h100", l));
      const Simulation ran = step_of(s);
      const CheckReport check = make_check(s);
      REQUIRE(check.memory.has_value());
      CHECK(check.memory->peak_bytes() == ran.report.memory->peak_bytes());
      CHECK(check.memory->rank == ran.report.memory->rank);
      ++compared;
    }
  CHECK(compared == 8 * 8 - 2);
}

// Law: each module that runs again adds kernels and frees memory; norms do neither. With nothing
// shared no step gets shorter by more work.
TEST_CASE("law: recompute trades time for memory") {
  for (Layout l : recompute_layouts()) {
    const auto ran = [&](const char* recompute) {
      l.recompute = recompute;
      return step_of(read(scenario_json("llama3.2-1b", "dgx-h100", l)), apart).report;
    };
    const Report none = ran("none"), attention = ran("core_attn"), mlp = ran("mlp"),
                 both = ran("core_attn+mlp"), whole = ran("uniform");
    CAPTURE(l);
    CHECK(none.step_seconds < attention.step_seconds);
    CHECK(none.step_seconds < mlp.step_seconds);
    CHECK(mlp.step_seconds < both.step_seconds);
    CHECK(attention.step_seconds < both.step_seconds);
    CHECK(both.step_seconds < whole.step_seconds);
    CHECK(*none.hfu == *none.mfu);
    CHECK(none.ledger[Cause::compute] < mlp.ledger[Cause::compute]);
    CHECK(mlp.ledger[Cause::compute] < both.ledger[Cause::compute]);
    CHECK(both.memory->peak_bytes() <= none.memory->peak_bytes());
    if (delayed(l)) continue;
    CHECK(ran("core_attn+mlp+layernorm").step_seconds == both.step_seconds);
    CHECK(ran("layernorm").memory->peak_bytes() == none.memory->peak_bytes());
  }
}
