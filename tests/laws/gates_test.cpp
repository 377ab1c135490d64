// Laws of determinism and of switches: same input, same bytes; a switch that a gate turns off
// changes no bit.
#include <doctest/doctest.h>

#include <functional>

#include "sim/report/json.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;
using nlohmann::json;

namespace {

Layout big() {
  return {.tp = 2,
          .cp = 2,
          .dp = 2,
          .pp = 2,
          .vp = 2,
          .microbatches = 4,
          .sp = true,
          .tp_overlap = true,
          .grad_overlap = true,
          .gather_overlap = true};
}

/// The step with `key` of `section` set, against the step without it.
bool same_step(json base, const char* section, const char* key, const json& value) {
  const double without = seconds_of(read(base));
  base[section][key] = value;
  return seconds_of(read(base)) == without;
}

}  // namespace

TEST_CASE("law: same input, same bytes out") {
  for (const char* system : {"dgx-h100", "gb200-nvl72"})
    for (bool unfold : {false, true}) {
      const Scenario s = read(scenario_json("llama3-8b", system, big()));
      const SimulateOptions options{.unfold = unfold};
      CHECK(
          report_json(s, step_of(s, options).report) ==
          report_json(read(scenario_json("llama3-8b", system, big())), step_of(s, options).report));
    }
  const Scenario given = read_scenario("scenarios/interleaved-4x8.json", {}, "", data());
  CHECK(report_json(given, step_of(given).report) == report_json(given, step_of(given).report));
}

// Megatron-Bridge training/comm_overlap.py: userbuffers need TP > 1 and sequence parallelism.
TEST_CASE("law: tp_comm_overlap that its gates switch off changes no bit") {
  Layout one = big();
  one.tp = 1, one.sp = false, one.tp_overlap = false;
  const json no_tp = scenario_json("llama3-8b", "dgx-h100", one);
  CHECK(same_step(no_tp, "comm_overlap", "tp_comm_overlap", true));
  CHECK(same_step(no_tp, "model", "sequence_parallel", true));

  Layout plain = big();
  plain.sp = false, plain.tp_overlap = false;
  const json no_sp = scenario_json("llama3-8b", "dgx-h100", plain);
  CHECK(same_step(no_sp, "comm_overlap", "tp_comm_overlap", true));

  // Tightness: with TP and sequence parallelism the switch matters.
  Layout on = big();
  on.tp_overlap = false;
  CHECK_FALSE(same_step(scenario_json("llama3-8b", "dgx-h100", on), "comm_overlap",
                        "tp_comm_overlap", true));
}

TEST_CASE("law: data-parallel overlap without data-parallel ranks changes no bit") {
  Layout one = big();
  one.cp = one.dp = 1, one.grad_overlap = one.gather_overlap = false;
  const json alone = scenario_json("llama3-8b", "dgx-h100", one);
  for (const char* key : {"overlap_grad_reduce", "overlap_param_gather", "align_param_gather"}) {
    CAPTURE(key);
    CHECK(same_step(alone, "comm_overlap", key, true));
  }
  // Context-parallel ranks share gradients: there the switch matters.
  Layout context = one;
  context.cp = 2, context.layers = 2;
  CHECK_FALSE(same_step(scenario_json("llama3-8b", "dgx-h100", context), "comm_overlap",
                        "overlap_grad_reduce", true));
}

// Megatron-Core ddp.py: buckets only with overlap_grad_reduce; Megatron-Core training.py turns them
// off when parameters are gathered in the optimizer step. Values count elements.
TEST_CASE("law: bucket_size matters only where gradients are reduced in buckets") {
  Layout l{.dp = 4,
           .pp = 2,
           .vp = 2,
           .microbatches = 4,
           .layers = 2,
           .grad_overlap = true,
           .gather_overlap = true};
  const json on = scenario_json("llama3-8b", "dgx-h100", l);
  CHECK_FALSE(same_step(on, "comm_overlap", "bucket_size", 50'000'000));

  json whole = on;
  whole["comm_overlap"]["overlap_param_gather_with_optimizer_step"] = true;
  CHECK(same_step(whole, "comm_overlap", "bucket_size", 50'000'000));

  Layout off = l;
  off.grad_overlap = off.gather_overlap = false;
  CHECK(same_step(scenario_json("llama3-8b", "dgx-h100", off), "comm_overlap", "bucket_size",
                  50'000'000));
}

TEST_CASE(
    "law: p2p switches without a pipeline, fp8 keys without fp8 and a default written out change "
    "no bit") {
  const json flat = scenario_json("llama3-8b", "dgx-h100", {.tp = 2, .dp = 2, .sp = true});
  CHECK(same_step(flat, "comm_overlap", "overlap_p2p_comm", true));
  CHECK(same_step(flat, "comm_overlap", "batch_p2p_comm", false));
  CHECK(same_step(flat, "model", "account_for_embedding_in_pipeline_split", false));
  CHECK(same_step(flat, "model", "apply_rope_fusion", true));
  CHECK(same_step(flat, "ddp", "average_in_collective", false));
  const json piped = scenario_json("llama3-8b", "dgx-h100", big());
  CHECK(same_step(piped, "comm_overlap", "overlap_p2p_comm", true));
  CHECK(same_step(piped, "model", "microbatch_group_size_per_vp_stage", 2));
}
