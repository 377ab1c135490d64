// Megatron-Bridge's CommOverlapConfig gates (training/comm_overlap.py): what becomes of what was
// asked.
#include "sim/config/overlap.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/config/small.h"

using namespace stepsim;

namespace {

/// Words on the small scenario, dotted keys with their effective value, and the finding they leave
/// ("" = none).
struct GateRow {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> effective;
  std::string finding;
};

void check(const std::vector<GateRow>& rows) {
  for (const GateRow& row : rows) {
    std::string label;
    for (const std::string& word : row.words) label += word + " ";
    CAPTURE(label);
    const Scenario scenario = small(row.words);
    for (const auto& [key, value] : row.effective) {
      const std::string name_of_key = key;  // clang cannot capture a structured binding
      CAPTURE(name_of_key);
      const auto found = scenario.effective.find(key);
      REQUIRE(found != scenario.effective.end());
      CHECK(found->second == value);
    }
    std::string all;
    for (const std::string& finding : findings(scenario)) all += finding + "; ";
    CAPTURE(all);
    if (row.finding.empty())
      CHECK(all.empty());
    else
      CHECK(all.find(row.finding) != std::string::npos);
  }
}

const std::string
    on = "comm_overlap.tp_comm_overlap=true",
    preset = "comm_overlap.tp_comm_overlap_cfg=userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192";
const std::string sharded = "ddp.use_distributed_optimizer=true";

}  // namespace

TEST_CASE("TP overlap gates: TP first, then sequence parallelism, neither an error") {
  check({{{"tp=4", "sp=true", on, preset}, {{"model.tp_comm_overlap", "true"}}, ""},
         {{"tp=4", "sp=true", on},
          {{"model.tp_comm_overlap", "true"}},
          "tp-overlap-built-in-methods"},
         {{"tp=4", on, preset},
          {{"model.tp_comm_overlap", "false"}},
          "tp-overlap-needs-sequence-parallel true->false"},
         {{on, preset}, {{"model.tp_comm_overlap", "false"}}, "tp-overlap-needs-tp true->false"},
         {{"sp=true"},
          {{"model.sequence_parallel", "false"}},
          "sequence-parallel-needs-tp true->false"},
         // The section's own False overwrites the model's True.
         {{"tp=4", "sp=true", "comm_overlap.tp_comm_overlap=false", "model.tp_comm_overlap=true"},
          {{"model.tp_comm_overlap", "false"}},
          "comm-overlap-overwrites true->false"}});
}

TEST_CASE("p2p defaults by layout") {
  const std::string overlap = "model.overlap_p2p_comm", batch = "model.batch_p2p_comm",
                    section = "comm_overlap.tp_comm_overlap=false";
  check(
      {{{"pp=4"},
        {{overlap, "false"}, {batch, "true"}},
        ""},  // Megatron-Core's defaults without the section
       {{"pp=4", "vp=2"}, {{overlap, "false"}, {batch, "true"}}, ""},
       {{section}, {{overlap, "false"}, {batch, "false"}}, ""},
       {{"pp=4", section}, {{overlap, "false"}, {batch, "true"}}, ""},
       {{"pp=4", "vp=2", section}, {{overlap, "true"}, {batch, "false"}}, ""},
       {{"pp=4", "vp=1", section}, {{overlap, "false"}, {batch, "true"}}, "vp-one-is-interleaved"},
       {{"pp=4", "vp=2", section, "comm_overlap.overlap_p2p_comm=false"},
        {{overlap, "false"}, {batch, "false"}},
        ""},
       {{section, "comm_overlap.overlap_p2p_comm=true"},
        {{overlap, "false"}},
        "p2p-overlap-needs-pipeline"}});
  CHECK(refusal({"pp=4", "vp=1", "comm_overlap.overlap_p2p_comm=true"})
            .find("cannot be combined with batch_p2p_comm") != std::string::npos);
  // Switches of model count only without the section that writes over them.
  const std::string one_by_one = "pipeline.p2p_order=fixed";
  CHECK(refusal({"pp=4", one_by_one})
            .find("it needs model.overlap_p2p_comm false and "
                  "model.batch_p2p_comm false") != std::string::npos);
  CHECK(refusal({"pp=4", section, overlap + "=false", batch + "=false", one_by_one})
            .find("it needs comm_overlap.overlap_p2p_comm false and comm_overlap.batch_p2p_comm "
                  "false") != std::string::npos);
  CHECK(refusal({"pp=4", "model.overlap_p2p_comm=true"})
            .find("/model/overlap_p2p_comm: needs virtual") != std::string::npos);
}

TEST_CASE(
    "data-parallel overlap: only when ddp already shards the optimizer, and DP does not count CP") {
  const std::string grad = "ddp.overlap_grad_reduce", gather = "ddp.overlap_param_gather",
                    align = "ddp.align_param_gather", size = "ddp.bucket_size";
  const std::string section = "comm_overlap.tp_comm_overlap=false";
  check(
      {{{sharded, section},
        {{grad, "true"}, {gather, "true"}, {align, "false"}, {size, "134217728"}},
        ""},
       {{sharded, section, "pp=4", "vp=2"}, {{grad, "true"}, {align, "true"}}, ""},
       {{sharded},
        {{grad, "false"}, {gather, "false"}, {size, "null"}},
        ""},  // no section: nothing runs
       {{sharded, "ddp.overlap_grad_reduce=true"},
        {{grad, "true"}, {size, "40000000"}},
        ""},  // max(40e6, 1e6 x 32)
       {{sharded, "ddp.overlap_grad_reduce=true", "cluster.nodes=16"}, {{size, "128000000"}}, ""},
       {{section, "comm_overlap.overlap_grad_reduce=true"},
        {{grad, "false"}},
        "overlap-needs-distributed-optimizer true->false"},
       {{section, "optimizer.use_distributed_optimizer=true"},
        {{grad, "false"}, {"ddp.use_distributed_optimizer", "true"}},
        "distributed-optimizer-synced-late"},
       {{sharded, section, "tp=8", "pp=4"},
        {{grad, "false"}, {gather, "false"}, {size, "null"}},
        ""},
       {{sharded, section, "tp=8", "cp=4"}, {{grad, "false"}}, "dp-overlap-ignores-cp null->false"},
       {{sharded, section, "ddp.overlap_grad_reduce=false"},
        {{grad, "true"}},
        "comm-overlap-overwrites false->true"},
       {{sharded, section, "comm_overlap.overlap_grad_reduce=false"},
        {{grad, "false"}, {gather, "true"}, {size, "null"}},
        ""},
       {{sharded, section, "comm_overlap.bucket_size=1000"},
        {{size, "1000"}},
        "bucket-size-counts-elements"},
       {{"ddp.overlap_param_gather=true"},
        {{gather, "false"}},
        "param-gather-needs-distributed-optimizer true->false"}});
}

TEST_CASE("embedding weight-gradient deferral as Megatron-Core validates it") {
  const std::string defer = "comm_overlap.defer_embedding_wgrad_compute=true",
                    limit = "comm_overlap.wgrad_deferral_limit=22";
  check(
      {{{"pp=4", defer, limit},
        {{"model.defer_embedding_wgrad_compute", "true"}, {"model.wgrad_deferral_limit", "22"}},
        ""},
       {{"pp=4", "comm_overlap.tp_comm_overlap=false", "model.defer_embedding_wgrad_compute=true"},
        {{"model.defer_embedding_wgrad_compute", "false"}},
        "comm-overlap-overwrites true->false"}});
  CHECK(refusal({"pp=4", defer}).find("wgrad_deferral_limit: must be 0") != std::string::npos);
  CHECK(refusal({defer, limit}).find("needs pipeline_model_parallel_size > 1") !=
        std::string::npos);
  CHECK(refusal({"pp=4", defer, limit, "model.gradient_accumulation_fusion=false"})
            .find("gradient_accumulation_fusion") != std::string::npos);
}

TEST_CASE("mixed precision writes first") {
  check({{{"mixed_precision=bf16_mixed", "ddp.grad_reduce_in_fp32=false"},
          {{"ddp.grad_reduce_in_fp32", "true"}},
          "mixed-precision-overwrites-ddp false->true"},
         {{"mixed_precision=fp16_mixed"}, {{"ddp.grad_reduce_in_fp32", "false"}}, ""},
         {{"mixed_precision=bf16_mixed", "mixed_precision.grad_reduce_in_fp32=false"},
          {{"ddp.grad_reduce_in_fp32", "false"}},
          ""},
         {{"ddp.grad_reduce_in_fp32=false"}, {{"ddp.grad_reduce_in_fp32", "false"}}, ""}});
  const Precision delayed =
      small({"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"}).precision;
  CHECK(delayed.fp8 == Fp8Recipe::delayed);
  CHECK(delayed.fp8_param_gather);
  CHECK(delayed.bf16_first_layers == 0);
  const Precision current =
      small({"mixed_precision=bf16_with_fp8_current_scaling_mixed"}).precision;
  CHECK(current.fp8 == Fp8Recipe::current);
  CHECK(current.bf16_first_layers == 1);
  CHECK(current.bf16_last_layers == 1);
  CHECK(small({"mixed_precision=bf16_with_fp8_current_scaling_mixed",
               "mixed_precision.first_last_layers_bf16=false"})
            .precision.bf16_last_layers == 0);
}

// Law: every preset configures all ten GEMMs, with a method that its GEMM can run.
TEST_CASE("presets") {
  CHECK(preset_names().size() == 19);
  for (const std::string& preset_name : preset_names()) {
    TpOverlaps overlaps{};
    REQUIRE(apply_preset(preset_name, 4, overlaps));
    for (const TpGemmRow& row : tp_gemm_rows) {
      const TpOverlap& overlap = overlaps[static_cast<size_t>(row.gemm)];
      CAPTURE(row.name);
      // Frozen weights have no weight gradient to put a collective beside.
      if (preset_name.ends_with("_lora") && row.name.ends_with("_wgrad")) continue;
      CHECK(overlap.method != TpMethod::none);
      CHECK(std::ranges::count(row.allowed, overlap.method) == 1);
      CHECK(overlap.num_sm >= 1);
    }
  }
  TpOverlaps none{};
  CHECK_FALSE(apply_preset("userbuffers", 4, none));
  // comm_overlap.py: proj_fprop of userbuffers_bf16_h100_h8192_tp4 is PipelineOverlapCfg(num_sm=24,
  // cga_size=2, num_splits=4, set_sm_margin=True).
  const Scenario scenario = small({"tp=4", "sp=true", on, preset});
  const TpOverlap& proj = scenario.overlap.tp[static_cast<size_t>(TpGemm::proj_fprop)];
  CHECK(proj.method == TpMethod::pipeline);
  CHECK(proj.num_sm == 24);
  CHECK(proj.num_splits == 4);
  CHECK(proj.set_sm_margin);
  const TpOverlap& wgrad = scenario.overlap.tp[static_cast<size_t>(TpGemm::qkv_wgrad)];
  CHECK(wgrad.method == TpMethod::bulk);
  CHECK(wgrad.num_sm == 24);
  CHECK_FALSE(wgrad.set_sm_margin);
}

TEST_CASE("an object per GEMM lies over Transformer Engine's built-ins, sub-switches over both") {
  const auto gemm = [](const Scenario& scenario, TpGemm which) {
    return scenario.overlap.tp[static_cast<size_t>(which)];
  };
  const Scenario scenario = small(
      {"tp=4", "sp=true", on,
       R"(comm_overlap.tp_comm_overlap_cfg={"fc2_fprop": {"method": "ring_exchange", "aggregate": true}})"});
  CHECK(gemm(scenario, TpGemm::fc2_fprop).method == TpMethod::ring_exchange);
  CHECK(gemm(scenario, TpGemm::fc2_fprop).aggregate);
  CHECK(gemm(scenario, TpGemm::proj_fprop).method == TpMethod::pipeline);
  CHECK(gemm(scenario, TpGemm::proj_fprop).num_sm == 16);  // built-in
  const Scenario without = small(
      {"tp=4", "sp=true", on, "model.tp_comm_bulk_wgrad=false", "model.tp_comm_overlap_rs=false"});
  CHECK(gemm(without, TpGemm::qkv_wgrad).method == TpMethod::none);
  CHECK(gemm(without, TpGemm::proj_fprop).method == TpMethod::none);
  CHECK(gemm(without, TpGemm::qkv_dgrad).method == TpMethod::bulk);
  CHECK(gemm(small({"tp=4", on}), TpGemm::qkv_fprop).method ==
        TpMethod::none);  // gated off: all none
  CHECK(refusal({"tp=4", "sp=true", on,
                 R"(comm_overlap.tp_comm_overlap_cfg={"qkv_wgrad": {"method": "ring_exchange"}})"})
            .find("qkv_wgrad/method: unknown name") != std::string::npos);
}
