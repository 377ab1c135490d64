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

namespace {

/// `flag`, merged into the scenario, is switched off by a gate that `open` opens.
struct Gate {
  const char* gate;
  Layout layout;
  const char* base;  ///< merged first
  const char* flag;
  const char* open = "";  ///< merged into both; "" = another layout would be needed
};

Layout with(int tp, int cp, int dp, int pp, int vp, bool sp) {
  return {.tp = tp, .cp = cp, .dp = dp, .pp = pp, .vp = vp, .microbatches = 4, .sp = sp};
}

json patched(json base, const char* patch) {
  if (*patch != '\0') base.merge_patch(json::parse(patch));
  return base;
}

const std::vector<Gate> gates{
    {"comm_overlap.py: TP 1", with(1, 1, 2, 1, 0, false), "",
     R"({"comm_overlap": {"tp_comm_overlap": true,
         "tp_comm_overlap_cfg": "userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192"}})"},
    {"comm_overlap.py: no sequence parallelism", with(2, 1, 2, 1, 0, false), "",
     R"({"comm_overlap": {"tp_comm_overlap": true}})", R"({"model": {"sequence_parallel": true}})"},
    {"comm_overlap.py: no Transformer Engine", with(2, 1, 2, 1, 0, true),
     R"({"software": {"transformer_engine": "none"}})",
     R"({"comm_overlap": {"tp_comm_overlap": true}})",
     R"({"software": {"transformer_engine": "2.8"}})"},
    {"comm_overlap.py: its False over the model's True", with(2, 1, 2, 1, 0, true), "",
     R"({"model": {"tp_comm_overlap": true}})", R"({"comm_overlap": null})"},
    {"model_parallel_config.py: sub-switches without TP overlap", with(2, 1, 1, 1, 0, true), "",
     R"({"model": {"tp_comm_bulk_wgrad": false, "tp_comm_bulk_dgrad": false,
         "tp_comm_overlap_ag": false, "tp_comm_overlap_rs": false,
         "tp_comm_overlap_disable_qkv": true, "tp_comm_overlap_disable_fc1": true}})",
     R"({"comm_overlap": {"tp_comm_overlap": true}})"},
    {"transformer_config.py: sequence parallelism at TP 1", with(1, 1, 2, 1, 0, false), "",
     R"({"model": {"sequence_parallel": true}})"},
    {"schedules.py: no pipeline to overlap", with(1, 1, 2, 1, 0, false), "",
     R"({"comm_overlap": {"overlap_p2p_comm": true, "batch_p2p_comm": true},
         "model": {"deallocate_pipeline_outputs": false, "microbatch_group_size_per_vp_stage": 2}})"},
    {"comm_overlap.py: its automatic overlap over the model's", with(1, 1, 1, 2, 2, false), "",
     R"({"model": {"overlap_p2p_comm": false, "batch_p2p_comm": true}})",
     R"({"comm_overlap": null, "model": {"batch_p2p_comm": false, "overlap_p2p_comm": true}})"},
    {"comm_overlap.py: its automatic batching over the model's", with(1, 1, 1, 2, 0, false), "",
     R"({"model": {"batch_p2p_comm": false}})", R"({"comm_overlap": null})"},
    {"arguments.py: Megatron-LM without VP", with(1, 1, 1, 2, 0, false),
     R"({"_dialect": "megatron-lm", "comm_overlap": null})",
     R"({"model": {"overlap_p2p_comm": true, "batch_p2p_comm": false},
         "ddp": {"align_param_gather": true}})"},
    {"arguments.py: Megatron-LM's VP 1", with(1, 1, 1, 4, 0, false),
     R"({"_dialect": "megatron-lm", "comm_overlap": null})",
     R"({"model": {"virtual_pipeline_model_parallel_size": 1}})"},
    {"comm_overlap.py: its False over the model's deferral", with(1, 1, 1, 2, 0, false), "",
     R"({"model": {"defer_embedding_wgrad_compute": true, "wgrad_deferral_limit": 1}})",
     R"({"comm_overlap": null})"},
    {"model_parallel_config.py: a limit without deferral", with(1, 1, 1, 2, 0, false), "",
     R"({"comm_overlap": {"wgrad_deferral_limit": 1}})",
     R"({"comm_overlap": {"defer_embedding_wgrad_compute": true, "wgrad_deferral_limit": 0}})"},
    {"comm_overlap.py: its data-parallel values over ddp's", with(1, 1, 4, 1, 0, false), "",
     R"({"ddp": {"overlap_grad_reduce": true, "overlap_param_gather": true,
         "align_param_gather": true, "overlap_param_gather_with_optimizer_step": true,
         "bucket_size": 1000000}})",
     R"({"comm_overlap": null})"},
    {"comm_overlap.py: DP 1 with CP 2", with(1, 2, 1, 1, 0, false),
     R"({"comm_overlap": {"overlap_grad_reduce": null, "overlap_param_gather": null}})",
     R"({"ddp": {"overlap_grad_reduce": true, "overlap_param_gather": true}})",
     R"({"comm_overlap": null})"},
    {"comm_overlap.py: ddp does not shard the optimizer", with(1, 1, 4, 1, 0, false),
     R"({"ddp": {"use_distributed_optimizer": false}})",
     R"({"comm_overlap": {"overlap_grad_reduce": true, "overlap_param_gather": true,
         "align_param_gather": true, "bucket_size": 1000000}})",
     R"({"ddp": {"use_distributed_optimizer": true}})"},
    {"distributed_data_parallel.py: a gather without sharding", with(1, 1, 4, 1, 0, false),
     R"({"ddp": {"use_distributed_optimizer": false}, "comm_overlap": null})",
     R"({"ddp": {"overlap_param_gather": true}})",
     R"({"ddp": {"use_distributed_optimizer": true, "overlap_grad_reduce": true,
         "bucket_size": 50000000}})"},
    {"distributed_data_parallel.py: a size without overlap", with(1, 1, 4, 1, 0, false), "",
     R"({"comm_overlap": {"bucket_size": 50000000}})",
     R"({"comm_overlap": {"overlap_grad_reduce": true}})"},
    {"dist_utils.py: a size beside gathers in the optimizer step", with(1, 1, 4, 2, 2, false),
     R"({"comm_overlap": {"overlap_grad_reduce": true, "overlap_param_gather": true,
         "overlap_param_gather_with_optimizer_step": true}})",
     R"({"comm_overlap": {"bucket_size": 50000000}})",
     R"({"comm_overlap": {"overlap_param_gather_with_optimizer_step": false}})"},
    {"mixed_precision.py: its gradients over ddp's", with(1, 1, 4, 1, 0, false), "",
     R"({"ddp": {"grad_reduce_in_fp32": false}})", R"({"mixed_precision": null})"},
    {"mixed_precision.py: its gather over ddp's", with(1, 1, 4, 1, 0, false), "",
     R"({"ddp": {"fp8_param_gather": true}})"},
    {"transformer_config.py: a recipe and end layers without fp8", with(1, 1, 2, 1, 0, false),
     R"({"mixed_precision": {"recipe": "bf16_mixed"}})",
     R"({"mixed_precision": {"fp8_recipe": "tensorwise", "first_last_layers_bf16": true,
         "num_layers_at_start_in_bf16": 1}})",
     R"({"mixed_precision": {"recipe": "bf16_with_fp8_current_scaling_mixed",
         "first_last_layers_bf16": false}})"},
    {"transformer_config.py: modules without a granularity", with(1, 1, 2, 1, 0, false), "",
     R"({"model": {"recompute_modules": ["core_attn"]}})",
     R"({"model": {"recompute_granularity": "selective", "recompute_modules": []}})"},
    {"transformer_config.py: a graph scope without graphs", with(1, 1, 2, 1, 0, false), "",
     R"({"model": {"cuda_graph_scope": ["attn"]}})"},
    {"gpt_provider.py: a kind of fused loss without fusion", with(1, 1, 2, 1, 0, false),
     R"({"model": {"cross_entropy_loss_fusion": false}})",
     R"({"model": {"cross_entropy_fusion_impl": "te"}})",
     R"({"model": {"cross_entropy_loss_fusion": true}})"},
};

}  // namespace

// Law: a flag that a gate switches off is a flag left out, bit for bit; and where the gate opens
// the flag is one that counts.
TEST_CASE("law: every gated flag gives the step without it") {
  for (const Gate& g : gates) {
    CAPTURE(std::string(g.gate));
    const json base = patched(scenario_json("llama3-8b", "dgx-h100", g.layout), g.base);
    CHECK(seconds_of(read(patched(base, g.flag))) == seconds_of(read(base)));
    if (*g.open == '\0') continue;
    const json open = patched(base, g.open);
    CHECK(seconds_of(read(patched(open, g.flag))) != seconds_of(read(open)));
  }
}
