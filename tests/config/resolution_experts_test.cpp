// Resolution of the overlap of experts' all-to-all and of full sharding; and the guides' advice.
#include "tests/config/resolution_table.h"

using namespace stepsim::table;

namespace {

using enum Base;
const std::vector<Row> expert_rows{
    {"comm_overlap.py: EP, experts, all-to-all: nothing is refused", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true",
     "m.overlap_moe_expert_parallel_comm=true m.delay_wgrad_compute=false", ""},
    {"comm_overlap.py: without the section the model's switch holds", experts,
     "ep=8 m.moe_token_dispatcher_type=flex m.overlap_moe_expert_parallel_comm=true",
     "m.overlap_moe_expert_parallel_comm=true", ""},
    {"comm_overlap.py: its False default is written over the model's True", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section m.overlap_moe_expert_parallel_comm=true",
     "m.overlap_moe_expert_parallel_comm=false", "silent comm-overlap-overwrites"},
    {"comm_overlap.py: so is that of delayed weight gradients", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section m.delay_wgrad_compute=true",
     "m.delay_wgrad_compute=false", "silent comm-overlap-overwrites"},
    {"comm_overlap.py: needs experts", dense, "section o.overlap_moe_expert_parallel_comm=true", "",
     "error ep-overlap-needs-experts"},
    {"comm_overlap.py: needs EP above 1", experts,
     "m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true", "",
     "error ep-overlap-needs-ep"},
    {"comm_overlap.py: needs an all-to-all", experts,
     "ep=8 section o.overlap_moe_expert_parallel_comm=true",
     "m.moe_token_dispatcher_type=\"allgather\"", "error ep-overlap-needs-all-to-all"},
    {"comm_overlap.py: needs VP in a pipeline", experts,
     "ep=8 pp=4 m.moe_token_dispatcher_type=alltoall section "
     "o.overlap_moe_expert_parallel_comm=true",
     "", "error ep-overlap-needs-vp"},
    {"comm_overlap.py: has it", experts,
     "ep=8 pp=4 vp=2 m.moe_token_dispatcher_type=alltoall section "
     "o.overlap_moe_expert_parallel_comm=true",
     "m.overlap_p2p_comm=true", ""},
    {"comm_overlap.py: no full recomputation", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "m.recompute_granularity=full m.recompute_method=uniform m.recompute_num_layers=1",
     "", "error ep-overlap-excludes-full-recompute"},
    {"comm_overlap.py: not even a method of one", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "m.recompute_method=uniform",
     "", "error ep-overlap-excludes-full-recompute"},
    {"comm_overlap.py: or its number of layers", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "m.recompute_num_layers=1",
     "", "error ep-overlap-excludes-full-recompute"},
    {"comm_overlap.py: no recomputation of MoE layers", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "m.recompute_granularity=selective m.recompute_modules=[moe]",
     "", "error ep-overlap-excludes-moe-recompute"},
    {"comm_overlap.py: no overlap of shared experts", latent,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "m.moe_shared_expert_overlap=true",
     "m.moe_shared_expert_overlap=true", "error ep-overlap-excludes-shared-overlap"},
    {"comm_overlap.py: one prediction module at most", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "m.mtp_num_layers=2",
     "", "error ep-overlap-one-mtp"},
    {"comm_overlap.py: delayed weight gradients need it", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.delay_wgrad_compute=true",
     "m.delay_wgrad_compute=true", "error delayed-wgrad-needs-ep-overlap"},
    {"comm_overlap.py: and Transformer Engine 2.7 with fused accumulation", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "o.delay_wgrad_compute=true software.transformer_engine=2.6",
     "", "error delayed-wgrad-needs-newer-engine"},
    {"comm_overlap.py: 2.10 is newer than 2.7", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "o.delay_wgrad_compute=true software.transformer_engine=2.10",
     "", ""},
    {"transformer_config.py: and 2.12 with graphs around attention", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "o.delay_wgrad_compute=true software.transformer_engine=2.11 "
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[attn]",
     "", "error delayed-wgrad-in-graphs-needs-newer-engine"},
    {"transformer_config.py: graphs need fused accumulation then", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "o.delay_wgrad_compute=true m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[attn] "
     "m.gradient_accumulation_fusion=false",
     "", "error delayed-wgrad-in-graphs-needs-fusion"},
    {"transformer_config.py: and attention without biases", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "o.delay_wgrad_compute=true m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[attn] "
     "m.add_qkv_bias=true",
     "", "error delayed-wgrad-in-graphs-excludes-bias"},
    {"transformer_config.py: the other overlap of dispatch excludes both", experts,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "m.overlap_dispatch_backward_with_experts_wgrad=true",
     "", "error dispatch-overlap-has-one-form"},
    {"transformer_config.py: early release of attention needs the overlap", experts,
     "ep=8 m.ep_overlap_early_attn_memory_release=true", "",
     "error early-release-needs-ep-overlap"},
    {"transformer_config.py: in a dense model too", dense,
     "m.ep_overlap_early_attn_memory_release=true", "", "error early-release-needs-ep-overlap"},
};

const std::vector<Row> sharding_rows{
    {"config.py: Megatron-FSDP switches the distributed optimizer on", dense,
     "d.use_megatron_fsdp=true", "d.use_distributed_optimizer=true",
     "silent fsdp-forces-distributed-optimizer"},
    {"config.py: either section switches it on", dense, "sharded dist.use_megatron_fsdp=true",
     "d.use_distributed_optimizer=true", ""},
    {"config.py: and clears average_in_collective", dense,
     "sharded d.use_megatron_fsdp=true d.average_in_collective=true",
     "d.average_in_collective=false", "silent fsdp-clears-average-in-collective"},
    {"config.py: unless registration is not symmetric", dense,
     "sharded d.use_megatron_fsdp=true d.average_in_collective=true "
     "d.disable_symmetric_registration=true",
     "d.average_in_collective=true", ""},
    {"config.py: one launch queue is too few (A8)", dense,
     "sharded d.use_megatron_fsdp=true env_vars.CUDA_DEVICE_MAX_CONNECTIONS=1", "",
     "error fsdp-needs-several-queues"},
    {"config.py: the default rank order only", dense,
     "sharded d.use_megatron_fsdp=true dist.use_tp_pp_dp_mapping=true", "",
     "error fsdp-needs-default-order"},
    {"config.py: its own checkpoints", dense,
     "sharded d.use_megatron_fsdp=true checkpoint.save=x checkpoint.ckpt_format=torch_dist", "",
     "error fsdp-needs-dtensor-checkpoints"},
    {"config.py: which are fine", dense,
     "sharded d.use_megatron_fsdp=true checkpoint.save=x checkpoint.ckpt_format=fsdp_dtensor", "",
     ""},
    {"config.py: which are of no other sharding", dense,
     "sharded checkpoint.save=x checkpoint.ckpt_format=fsdp_dtensor", "",
     "error dtensor-checkpoints-need-fsdp"},
    {"config.py: buffers registered by hand are NCCL's", dense,
     "sharded d.use_megatron_fsdp=true d.fsdp_manual_registration=true", "",
     "error manual-registration-needs-nccl-buffers"},
    {"config.py: with them", dense,
     "sharded d.use_megatron_fsdp=true d.fsdp_manual_registration=true d.nccl_ub=true", "", ""},
    {"config.py: no parameters gathered through the gradient buffer", dense,
     "sharded d.use_megatron_fsdp=true d.reuse_grad_buf_for_mxfp8_param_ag=true", "",
     "silent fsdp-clears-buffer-reuse"},
    {"config.py: the second version knows data parallelism only", dense,
     "d.use_megatron_fsdp=true d.megatron_fsdp_version=2 tp=2", "",
     "error fsdp-v2-is-data-parallel-only; advice not-simulated-yet"},
    {"config.py: in bf16", dense,
     "d.use_megatron_fsdp=true d.megatron_fsdp_version=2 "
     "mixed_precision=bf16_with_fp8_current_scaling_mixed",
     "", "error fsdp-v2-needs-bf16; advice not-simulated-yet"},
    {"config.py: in the default order, without checkpoints", dense,
     "d.use_megatron_fsdp=true d.megatron_fsdp_version=2 dist.use_tp_pp_dp_mapping=true "
     "checkpoint.load=x checkpoint.ckpt_format=fsdp_dtensor",
     "", "error fsdp-needs-default-order; error fsdp-v2-stores-nothing; advice not-simulated-yet"},
    {"config.py: without a loss per token or an optimizer on the host", dense,
     "d.use_megatron_fsdp=true d.megatron_fsdp_version=2 m.calculate_per_token_loss=true "
     "optimizer.optimizer_cpu_offload=true",
     "",
     "error fsdp-v2-excludes-per-token-loss; error fsdp-v2-excludes-optimizer-offload; "
     "advice not-simulated-yet"},
    {"config.py: and hides nothing", dense,
     "sharded d.use_megatron_fsdp=true d.megatron_fsdp_version=2 d.overlap_grad_reduce=true "
     "d.overlap_param_gather=true",
     "d.overlap_grad_reduce=false d.overlap_param_gather=false d.use_distributed_optimizer=false",
     "silent fsdp-v2-switches-off; advice not-simulated-yet"},
    {"config.py: evaluation divides over the same ranks", dense,
     "validation.eval_global_batch_size=40", "", "error eval-batch-not-divisible"},
    {"config.py: in micro batches of its own", dense,
     "validation.eval_global_batch_size=64 validation.eval_micro_batch_size=2", "", ""},
    {"combined_1f1b.py: interleaved expert overlap excludes it", experts,
     "sharded d.use_megatron_fsdp=true ep=8 pp=4 vp=2 m.moe_token_dispatcher_type=alltoall "
     "m.overlap_moe_expert_parallel_comm=true",
     "", "error ep-overlap-excludes-interleaved-fsdp"},
    {"config.py: one form of sharding", dense,
     "sharded d.use_megatron_fsdp=true dist.use_torch_fsdp2=true", "",
     "error fsdp-has-one-form; error torch-fsdp-excludes-distributed-optimizer"},
    {"arguments.py: PyTorch's form knows no pipeline", dense, "pp=4 d.use_torch_fsdp2=true", "",
     "error torch-fsdp-is-data-parallel-only"},
    {"arguments.py: nor fp16", dense, "d.use_torch_fsdp2=true mixed_precision=fp16_mixed", "",
     "error torch-fsdp-needs-bf16"},
    {"arguments.py: nor fused accumulation, nor one table for both ends", megatron_lm,
     "d.use_torch_fsdp2=true m.share_embeddings_and_output_weights=true", "",
     "error torch-fsdp-excludes-fused-accumulation; error torch-fsdp-needs-untied-embeddings"},
};

const std::vector<Row> advice_rows{
    {"strategy guide: 1-10B start with TP 2-4 (B1, B12)", dense, "", "",
     "advice dense-starting-point"},
    {"strategy guide: as the table says (B1)", dense, "tp=4 sp=true", "", "",
     "dense-starting-point"},
    {"strategy guide: 70-175B start with TP 8 and PP 4-8 (B1)", dense,
     "m.hf_config=llama3-70b tp=2 sp=true", "", "advice dense-starting-point"},
    {"strategy guide: as the table says (B1)", dense,
     "m.hf_config=llama3-70b tp=8 sp=true pp=4 vp=2", "", "", "dense-starting-point"},
    {"strategy guide: Qwen3 30B-A3B starts with TP 4 PP 2 EP 4 (B2)", experts,
     "m.hf_config=qwen3-30b-a3b ep=8", "", "advice moe-starting-point"},
    {"strategy guide: as the table says (B2)", experts,
     "m.hf_config=qwen3-30b-a3b tp=4 sp=true pp=2 ep=4", "etp=1", "silent etp-default-is-one",
     "moe-starting-point"},
    {"strategy guide: TP stays inside an NVLink domain (B3, B11)", dense,
     "tp=16 sp=true m.num_query_groups=16", "", "advice tp-across-domains"},
    {"strategy guide: TP 8 in a node of 8 (B3)", dense, "tp=8 sp=true", "", "",
     "tp-across-domains tp-on-ethernet"},
    {"strategy guide: TP 4 on Ethernet (B3)", dense, "tp=8 sp=true cluster.system=p5-h100", "",
     "advice tp-on-ethernet"},
    {"strategy guide: from 2K add sequence parallelism (B4)", dense, "tp=4 dataset.seq_length=2048",
     "", "advice sequence-parallel-from-2k"},
    {"strategy guide: below 2K nothing to add (B4)", dense, "tp=4 dataset.seq_length=2047", "", "",
     "sequence-parallel-from-2k context-parallel-for-long-sequences"},
    {"strategy guide: above 8K add CP 2 (B4)", dense, "dataset.seq_length=16384", "",
     "advice context-parallel-for-long-sequences"},
    {"strategy guide: CP 2 is there (B4)", dense, "cp=2 dataset.seq_length=16384", "", "",
     "context-parallel-for-long-sequences"},
    {"strategy guide: above 32K CP 4 or more (B4)", dense, "cp=2 dataset.seq_length=65536", "",
     "advice context-parallel-for-long-sequences"},
    {"strategy guide: a pipeline without interleaving (B11)", dense, "pp=4", "",
     "advice pipeline-without-interleaving"},
    {"strategy guide: VP where it divides (B11)", dense, "pp=4 vp=2", "vp=2", "",
     "pipeline-without-interleaving"},
    {"Megatron-LM pull request 5271: one peer on both sides", dense,
     "pp=2 vp=2 m.variable_seq_lengths=true", "", "advice shape-exchange-with-one-peer"},
    {"Megatron-LM pull request 5271: two peers", dense, "pp=4 vp=2 m.variable_seq_lengths=true", "",
     "", "shape-exchange-with-one-peer"},
    {"strategy guide: the five-fold product is no rule (B6, B8)", experts,
     "tp=2 sp=true ep=8 cluster.nodes=2", "etp=1",
     "advice five-fold-product; silent etp-default-is-one"},
    {"strategy guide: the minimum itself (B6)", experts, "tp=2 sp=true ep=8 cluster.nodes=1",
     "etp=1", "silent etp-default-is-one", "five-fold-product"},
    {"parallel_state.py: meshes that do not nest", experts,
     "cluster.gpus=24 gbs=96 cp=3 ep=8 dataset.seq_length=6144", "", "advice meshes-do-not-nest"},
    {"overlap guide: one queue keeps the order on Hopper (A8)", dense, "tp=4 sp=true", "",
     "advice launch-order-on-hopper"},
    {"overlap guide: set in the environment, not in comm_overlap (A8)", dense,
     "tp=4 sp=true env_vars.CUDA_DEVICE_MAX_CONNECTIONS=1", "", "", "launch-order-on-hopper"},
    {"environment_utils.py: 32 queues on Blackwell (A8)", dense,
     "tp=4 sp=true cluster.system=dgx-b200 env_vars.CUDA_DEVICE_MAX_CONNECTIONS=8", "",
     "advice launch-queues-on-blackwell", "launch-order-on-hopper"},
};

}  // namespace

TEST_CASE("resolution table: overlap of experts") {
  for (const Row& row : expert_rows) check(row);
}

TEST_CASE("resolution table: full sharding") {
  for (const Row& row : sharding_rows) check(row);
}

TEST_CASE("resolution table: advice") {
  for (const Row& row : advice_rows) check(row);
}
