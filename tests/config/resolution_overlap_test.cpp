// Resolution of communication overlap: CommOverlapConfig's gates, defaults and overwrites.
#include "tests/config/resolution_table.h"

using namespace stepsim::table;

namespace {

using enum Base;
const std::vector<Row> tensor_rows{
    {"comm_overlap.py: TP below 2 switches TP overlap off without an error (A1, A2)", dense, "on",
     "m.tp_comm_overlap=false", "silent tp-overlap-needs-tp", "tp-overlap-built-in-methods"},
    {"comm_overlap.py: no sequence parallelism, the second gate (A1, A2, A9)", dense, "tp=4 on",
     "m.tp_comm_overlap=false sp=false", "silent tp-overlap-needs-sequence-parallel"},
    {"comm_overlap.py: the TP gate comes first; transformer_config.py clears SP (A2, B10)", dense,
     "on sp=true", "m.tp_comm_overlap=false sp=false",
     "silent sequence-parallel-needs-tp; silent tp-overlap-needs-tp"},
    {"comm_overlap.py: Transformer Engine missing, the third gate (A2)", dense,
     "tp=4 sp=true on software.transformer_engine=none", "m.tp_comm_overlap=false",
     "silent tp-overlap-needs-transformer-engine"},
    {"comm_overlap.py: the gates in order, one finding (A2)", dense,
     "tp=4 on software.transformer_engine=none", "m.tp_comm_overlap=false",
     "silent tp-overlap-needs-sequence-parallel"},
    {"comm_overlap.py: all gates open (A1); base.py: built-in methods", dense, "tp=4 sp=true on",
     "m.tp_comm_overlap=true m.tp_comm_overlap_cfg.qkv_fprop=\"ring_exchange\" "
     "m.tp_comm_overlap_cfg.proj_fprop=\"pipeline\" m.tp_comm_overlap_cfg.fc1_dgrad=\"bulk\"",
     "advice tp-overlap-built-in-methods", "tp-overlap-needs-tp"},
    {"comm_overlap.py: a preset by name (A3)", dense,
     "tp=4 sp=true on "
     "o.tp_comm_overlap_cfg=userbuffers_bf16_h100_h12288_tp4_mbs1_seqlen2048",
     "m.tp_comm_overlap=true m.tp_comm_overlap_cfg.proj_fprop=\"pipeline\" "
     "m.tp_comm_overlap_cfg.fc2_fprop=\"ring_exchange\"",
     "", "tp-overlap-built-in-methods"},
    {"comm_overlap.py: an unknown preset names the nearest (A3)", dense,
     "tp=4 sp=true on o.tp_comm_overlap_cfg=userbuffers_bf16_h100_h12288_tp4_mbs1_seqlen204", "",
     "", "", "userbuffers_bf16_h100_h12288_tp4_mbs1_seqlen2048"},
    {"model_parallel_config.py: the sub-switches take single GEMMs out", dense,
     "tp=4 sp=true on m.tp_comm_overlap_disable_qkv=true",
     "m.tp_comm_overlap_cfg.qkv_fprop=\"none\" m.tp_comm_overlap_cfg.qkv_wgrad=\"none\" "
     "m.tp_comm_overlap_cfg.fc1_fprop=\"ring_exchange\"",
     ""},
    {"model_parallel_config.py: bulk weight gradients alone", dense,
     "tp=4 sp=true on m.tp_comm_bulk_wgrad=false",
     "m.tp_comm_overlap_cfg.fc1_wgrad=\"none\" m.tp_comm_overlap_cfg.fc1_dgrad=\"bulk\"", ""},
    {"transformer_engine.py: latent attention's down projections clear the switch", latent,
     "tp=2 sp=true on", "m.tp_comm_overlap=false", "silent tp-overlap-excludes-mla"},
    {"transformer_engine.py: expert linears never use userbuffers", experts, "tp=2 sp=true on",
     "m.tp_comm_overlap=true", "advice tp-overlap-not-for-experts"},
    {"layernorm_linear.py: delayed weight gradients with userbuffers are not implemented", experts,
     "tp=2 sp=true ep=8 on m.moe_token_dispatcher_type=alltoall "
     "o.overlap_moe_expert_parallel_comm=true o.delay_wgrad_compute=true",
     "m.delay_wgrad_compute=true",
     "error delayed-wgrad-excludes-userbuffers; silent etp-default-is-one"},
    {"model_parallel_config.py: reduce-scatter under its own dgrad is another method", dense,
     "tp=4 sp=true on m.tp_comm_overlap_rs_dgrad=true "
     "o.tp_comm_overlap_cfg.fc1_dgrad.method=pipeline",
     "m.tp_comm_overlap_cfg.fc1_dgrad=\"pipeline\" m.tp_comm_overlap_cfg.fc1_wgrad=\"none\"", ""},
    {"layernorm_linear.py: a bulk communicator cannot reduce", dense,
     "tp=4 sp=true on m.tp_comm_overlap_rs_dgrad=true",
     "m.tp_comm_overlap_cfg.qkv_dgrad=\"none\" m.tp_comm_overlap_cfg.qkv_wgrad=\"none\"", ""},
    {"comm_overlap.py: userbuffers_fp8_h100_h8192_tp2_mbs1_seqlen4096_lora", dense,
     "tp=2 sp=true on m.tp_comm_overlap_rs_dgrad=true peft.scheme=lora "
     "o.tp_comm_overlap_cfg=userbuffers_fp8_h100_h8192_tp2_mbs1_seqlen4096_lora",
     "m.tp_comm_overlap_cfg.fc1_dgrad=\"pipeline\" "
     "m.tp_comm_overlap_cfg.proj_fprop=\"ring_exchange\"",
     ""},
    {"comm_overlap.py: userbuffers_fp8_h100_h16384_tp4_mbs1_seqlen2048_lora", dense,
     "tp=4 sp=true on m.tp_comm_overlap_rs_dgrad=true peft.scheme=lora "
     "o.tp_comm_overlap_cfg=userbuffers_fp8_h100_h16384_tp4_mbs1_seqlen2048_lora",
     "m.tp_comm_overlap_cfg.fc1_dgrad=\"pipeline\" m.tp_comm_overlap_cfg.fc1_wgrad=\"none\" "
     "m.tp_comm_overlap_cfg.proj_fprop=\"pipeline\" m.tp_comm_overlap_cfg.fc2_fprop=\"pipeline\" "
     "m.tp_comm_overlap_cfg.qkv_fprop=\"ring_exchange\"",
     ""},
    {"layers.py, LinearWithFrozenWeight: nothing of a frozen head is deferred", dense,
     "pp=2 section peft.scheme=lora o.defer_embedding_wgrad_compute=true o.wgrad_deferral_limit=22",
     "m.defer_embedding_wgrad_compute=false", "silent deferred-head-needs-gradient"},
    {"peft/utils.py: the rank is split", dense, "tp=4 sp=true peft.dim=6", "peft.dim=6",
     "error adapter-rank-not-divisible"},
    {"peft/utils.py: adapters of experts", experts, "peft.scheme=lora", "",
     "advice "
     "not-simulated-yet"},
    {"peft/dora.py", dense, "peft.scheme=dora", "", "advice not-simulated-yet"},
    {"config.py: no comm_overlap, the model's own switch holds", dense,
     "tp=4 sp=true m.tp_comm_overlap=true", "m.tp_comm_overlap=true", ""},
    {"comm_overlap.py: its False is written over the model's True", dense,
     "tp=4 sp=true section m.tp_comm_overlap=true", "m.tp_comm_overlap=false",
     "silent comm-overlap-overwrites"},
    {"comm_overlap.py: its True is written over the model's False", dense,
     "tp=4 sp=true on m.tp_comm_overlap=false", "m.tp_comm_overlap=true",
     "silent comm-overlap-overwrites"},
    {"arguments.py: Megatron-LM asserts what Bridge switches off (A1)", megatron_lm,
     "tp=4 m.tp_comm_overlap=true", "m.tp_comm_overlap=false",
     "error mlm-tp-overlap-needs-sequence-parallel"},
    {"arguments.py: with sequence parallelism both agree", megatron_lm,
     "tp=4 sp=true m.tp_comm_overlap=true", "m.tp_comm_overlap=true", ""},
};

const std::vector<Row> pipeline_rows{
    {"model_parallel_config.py: without the section Megatron-Core's defaults (A4)", dense, "pp=4",
     "m.overlap_p2p_comm=false m.batch_p2p_comm=true", ""},
    {"model_parallel_config.py: VP changes nothing without the section", dense, "pp=4 vp=2",
     "m.overlap_p2p_comm=false m.batch_p2p_comm=true", ""},
    {"comm_overlap.py: PP 1, both false (A4)", dense, "section",
     "m.overlap_p2p_comm=false m.batch_p2p_comm=false", ""},
    {"comm_overlap.py: PP without VP batches (A4)", dense, "pp=4 section",
     "m.overlap_p2p_comm=false m.batch_p2p_comm=true", ""},
    {"comm_overlap.py: VP > 1 overlaps (A4)", dense, "pp=4 vp=2 section",
     "m.overlap_p2p_comm=true m.batch_p2p_comm=false", ""},
    {"comm_overlap.py, schedules.py: VP = 1 batches in the interleaved schedule (A4)", dense,
     "pp=4 vp=1 section", "m.overlap_p2p_comm=false m.batch_p2p_comm=true vp=1",
     "advice vp-one-is-interleaved"},
    {"comm_overlap.py: a VP that only the layout implies is not seen", dense,
     "pp=4 section m.pipeline_model_parallel_layout=Et*4|(t*4|)*6t*4L",
     "m.overlap_p2p_comm=false m.batch_p2p_comm=true vp=2", ""},
    {"comm_overlap.py: the user's False wins over the automatic True", dense,
     "pp=4 vp=2 section o.overlap_p2p_comm=false", "m.overlap_p2p_comm=false", ""},
    {"schedules.py: the user's batching beside the automatic overlap", dense,
     "pp=4 vp=2 section o.batch_p2p_comm=true", "m.batch_p2p_comm=true",
     "error p2p-overlap-excludes-batching"},
    {"schedules.py: the non-interleaved schedule raises on overlap (A4)", dense,
     "pp=4 section o.overlap_p2p_comm=true", "", "error p2p-overlap-needs-vp"},
    {"schedules.py: VP = 1 is interleaved, so overlap meets the automatic batching", dense,
     "pp=4 vp=1 section o.overlap_p2p_comm=true", "",
     "error p2p-overlap-excludes-batching; advice vp-one-is-interleaved"},
    {"schedules.py: no pipeline, no exchange to overlap", dense, "section o.overlap_p2p_comm=true",
     "m.overlap_p2p_comm=false", "silent p2p-overlap-needs-pipeline"},
    {"model_parallel_config.py: the model's overlap beside the core's batching", dense,
     "pp=4 vp=2 m.overlap_p2p_comm=true", "", "error p2p-overlap-excludes-batching"},
    {"model_parallel_config.py: both set on the model, no section", dense,
     "pp=4 vp=2 m.overlap_p2p_comm=true m.batch_p2p_comm=false",
     "m.overlap_p2p_comm=true m.batch_p2p_comm=false", ""},
    {"comm_overlap.py: its automatic False is written over the model's True", dense,
     "pp=4 section m.overlap_p2p_comm=true", "m.overlap_p2p_comm=false",
     "silent comm-overlap-overwrites"},
    {"comm_overlap.py: its automatic True is written over the model's False", dense,
     "pp=4 vp=2 section m.overlap_p2p_comm=false", "m.overlap_p2p_comm=true",
     "silent comm-overlap-overwrites"},
    {"model_parallel_config.py: warm-up flush needs overlap", dense,
     "pp=4 vp=2 m.overlap_p2p_comm_warmup_flush=true", "", "error warmup-flush-needs-overlap"},
    {"model_parallel_config.py: warm-up flush with overlap and without batching", dense,
     "pp=4 vp=2 section m.overlap_p2p_comm_warmup_flush=true", "m.overlap_p2p_comm=true", ""},
    {"arguments.py: Megatron-LM clears overlap without VP where Bridge raises", megatron_lm,
     "pp=4 m.overlap_p2p_comm=true m.batch_p2p_comm=false",
     "m.overlap_p2p_comm=false m.batch_p2p_comm=true", "silent mlm-p2p-overlap-needs-vp"},
    {"arguments.py: with two stages and no overlap Megatron-LM refuses VP", megatron_lm,
     "pp=2 vp=2", "m.overlap_p2p_comm=false", "error mlm-interleaving-needs-three-stages"},
    {"arguments.py: two stages overlap", megatron_lm,
     "pp=2 vp=2 m.overlap_p2p_comm=true m.batch_p2p_comm=false", "m.overlap_p2p_comm=true", ""},
    {"schedules.py: Bridge has no such rule for two stages", dense, "pp=2 vp=2",
     "m.overlap_p2p_comm=false", ""},
    {"arguments.py: Megatron-LM clears VP = 1", megatron_lm, "pp=4 vp=1", "vp=null",
     "silent mlm-vp-one-is-none", "vp-one-is-interleaved"},
};

const std::vector<Row> embedding_rows{
    {"model_parallel_config.py: Bridge's own limit -1 is refused", dense,
     "pp=4 section o.defer_embedding_wgrad_compute=true", "m.wgrad_deferral_limit=-1",
     "error deferral-limit-negative"},
    {"model_parallel_config.py: limit 0 defers all microbatches", dense,
     "pp=4 section o.defer_embedding_wgrad_compute=true o.wgrad_deferral_limit=0",
     "m.defer_embedding_wgrad_compute=true m.wgrad_deferral_limit=0", ""},
    {"model_parallel_config.py: deferral needs a pipeline", dense,
     "section o.defer_embedding_wgrad_compute=true o.wgrad_deferral_limit=0", "",
     "error deferred-head-needs-pp"},
    {"model_parallel_config.py: deferral needs fused accumulation", dense,
     "pp=4 section o.defer_embedding_wgrad_compute=true o.wgrad_deferral_limit=0 "
     "m.gradient_accumulation_fusion=false",
     "", "error deferred-head-needs-fusion"},
    {"model_parallel_config.py: without the section the core's limit 0", dense,
     "pp=4 m.defer_embedding_wgrad_compute=true",
     "m.defer_embedding_wgrad_compute=true m.wgrad_deferral_limit=0", ""},
    {"comm_overlap.py: its False default is written over the model's True", dense,
     "pp=4 section m.defer_embedding_wgrad_compute=true", "m.defer_embedding_wgrad_compute=false",
     "silent comm-overlap-overwrites"},
    {"comm_overlap.py: its limit -1 is written over the model's", dense,
     "pp=4 section m.wgrad_deferral_limit=22", "m.wgrad_deferral_limit=-1",
     "silent comm-overlap-overwrites"},
};

}  // namespace

TEST_CASE("resolution table: tensor-parallel overlap") {
  for (const Row& row : tensor_rows) check(row);
}

TEST_CASE("resolution table: pipeline overlap") {
  for (const Row& row : pipeline_rows) check(row);
}

TEST_CASE("resolution table: deferred weight gradients of the embedding") {
  for (const Row& row : embedding_rows) check(row);
}
