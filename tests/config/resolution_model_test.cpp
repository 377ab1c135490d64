// Resolution of model against mesh, experts, recomputation, offload, sharding; and the guides'
// advice on layouts.
#include "tests/config/resolution_table.h"

using namespace stepsim::table;

namespace {

using enum Base;
const std::vector<Row> model_rows{
    {"transformer_config.py: TP divides the heads", dense,
     "m.kv_channels=128 m.num_attention_heads=24 m.num_query_groups=8 tp=16", "",
     "error tp-does-not-divide-heads; advice tp-across-domains"},
    {"transformer_config.py: query groups are a multiple or a divisor of TP", dense,
     "m.kv_channels=128 m.num_attention_heads=24 m.num_query_groups=6 tp=4", "",
     "error tp-does-not-fit-groups"},
    {"transformer_config.py: fewer groups than TP are fine when they divide it", dense,
     "m.num_query_groups=2 tp=4", "", ""},
    {"layers.py: TP divides the MLP", dense, "m.ffn_hidden_size=14337 tp=2", "",
     "error tp-does-not-divide-ffn"},
    {"transformer_config.py: Bridge clears sequence parallelism at TP 1 (B10)", dense, "sp=true",
     "sp=false", "silent sequence-parallel-needs-tp"},
    {"arguments.py: and so does Megatron-LM", megatron_lm, "sp=true", "sp=false",
     "silent sequence-parallel-needs-tp"},
    {"moe_layer.py: experts with TP need sequence parallelism", experts, "tp=2", "",
     "error moe-needs-sequence-parallel"},
    {"transformer_config.py: Bridge's ETP is 1 once EP > 1", experts, "tp=2 sp=true ep=2",
     "ep=2 etp=1", "silent etp-default-is-one"},
    {"transformer_config.py: with EP 1 it stays TP", experts, "tp=2 sp=true", "ep=1 etp=2", ""},
    {"transformer_config.py: Megatron-LM's ETP is TP", experts_megatron_lm, "tp=2 sp=true ep=2",
     "ep=2 etp=2", ""},
    {"transformer_config.py: the user's ETP wins", experts, "tp=2 sp=true ep=2 etp=2", "etp=2", ""},
    {"transformer_config.py: EP on a dense model (B10)", dense, "ep=2", "",
     "error ep-needs-experts"},
    {"config.py: the sequence is a multiple of 2 x CP (B10)", dense, "cp=4 dataset.seq_length=8188",
     "", "error sequence-not-divisible-by-cp"},
    {"config.py: model and dataset agree on its length", dense, "m.seq_length=4096", "",
     "error sequence-lengths-differ"},
    {"config.py: fine-tuning with CP needs the loss per token", dense,
     "cp=2 dataset._target_=FinetuningDatasetConfig", "", "error finetuning-needs-per-token-loss"},
    {"config.py: so do the other data sets of fine-tuning", dense,
     "cp=2 dataset._target_=megatron.bridge.training.config.GPTSFTDatasetConfig", "",
     "error finetuning-needs-per-token-loss"},
    {"config.py: and gradients that are not averaged in flight", dense,
     "cp=2 dataset._target_=FinetuningDatasetConfig m.calculate_per_token_loss=true "
     "d.average_in_collective=true",
     "", "error finetuning-excludes-average-in-collective"},
    {"config.py: pre-training with CP has no such rule", dense, "cp=2 d.average_in_collective=true",
     "", ""},
    {"transformer_config.py: a list of exchanges has one for each layer", dense,
     R"(cp=2 m.cp_comm_type=["p2p","p2p"])", "", "error cp-kinds-not-per-layer"},
    {"transformer_config.py: biases exclude ETP", experts, "tp=2 sp=true m.add_bias_linear=true",
     "etp=2", "error etp-with-bias"},
    {"transformer_config.py: one expert a token needs a softmax before", experts,
     "m.moe_router_topk=1", "", "error top1-needs-pre-softmax"},
    {"transformer_config.py: which is enough", experts,
     "m.moe_router_topk=1 m.moe_router_pre_softmax=true", "", ""},
    {"transformer_config.py: router groups divide the experts", experts,
     "m.moe_router_num_groups=3 m.moe_router_group_topk=1", "",
     "error router-groups-do-not-divide-experts"},
    {"transformer_config.py: a token uses no more groups than there are", experts,
     "m.moe_router_num_groups=2 m.moe_router_group_topk=4", "", "error group-topk-exceeds-groups"},
    {"transformer_config.py: a limit to groups needs groups", experts, "m.moe_router_group_topk=1",
     "", "error group-topk-needs-groups"},
    {"transformer_config.py: groups without a limit are not looked at", experts,
     "m.moe_router_num_groups=3", "", ""},
    {"transformer_config.py: sinkhorn is no softmax", experts,
     "m.moe_router_topk=1 m.moe_router_load_balancing_type=sinkhorn", "", ""},
    {"transformer_config.py: a bias per expert is for sigmoids", experts,
     "m.moe_router_enable_expert_bias=true", "", "error expert-bias-needs-sigmoid"},
    {"transformer_config.py: has one", experts,
     "m.moe_router_enable_expert_bias=true m.moe_router_score_function=sigmoid", "", ""},
    {"transformer_config.py: allgather needs fixed lengths", experts, "m.variable_seq_lengths=true",
     "", "error allgather-needs-fixed-lengths; advice not-simulated-yet"},
    {"transformer_config.py: DeepEP needs the flex dispatcher", experts, "m.moe_enable_deepep=true",
     "m.moe_token_dispatcher_type=\"allgather\"", "error deepep-needs-flex"},
    {"flex_dispatcher_backend.py: an unsupported GPU falls back", experts,
     "cluster.system=gb200-nvl72 m.moe_token_dispatcher_type=flex m.moe_shared_expert_overlap=true",
     "m.moe_token_dispatcher_type=\"alltoall\" m.moe_shared_expert_overlap=false",
     "silent flex-falls-back"},
    {"flex_dispatcher_backend.py: HybridEP runs there", experts,
     "cluster.system=gb200-nvl72 ep=4 m.moe_token_dispatcher_type=flex "
     "m.moe_flex_dispatcher_backend=hybridep",
     "m.moe_token_dispatcher_type=\"flex\"", ""},
    {"flex_dispatcher_backend.py: DeepEP runs on Hopper", experts,
     "ep=8 m.moe_token_dispatcher_type=flex m.moe_shared_expert_overlap=true",
     "m.moe_token_dispatcher_type=\"flex\" m.moe_shared_expert_overlap=true", ""},
    {"token_dispatcher.py: flex has somebody to send to", experts,
     "m.moe_token_dispatcher_type=flex", "", "error flex-needs-several-ranks"},
    {"transformer_config.py: shared experts overlap an all-to-all", latent,
     "m.moe_shared_expert_overlap=true", "", "error shared-overlap-needs-all-to-all"},
    {"deep_ep/buffer.py: half of the SMs send", experts,
     "ep=8 m.moe_token_dispatcher_type=flex m.moe_deepep_num_sms=21", "",
     "error deepep-needs-even-sms"},
    {"hybrid_ep: a domain reaches no further than NVLink", experts,
     "cluster.nodes=8 ep=8 m.num_moe_experts=16 m.expert_model_parallel_size=16 "
     "m.moe_token_dispatcher_type=flex m.moe_flex_dispatcher_backend=hybridep "
     "env_vars.NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN=16",
     "", "error hybridep-domain-exceeds-nvlink"},
    {"transformer_config.py: padding needs a capacity factor", experts,
     "m.moe_pad_expert_input_to_capacity=true", "", "error padding-needs-capacity-factor"},
    {"transformer_config.py: a negative factor is none", experts,
     "m.moe_pad_expert_input_to_capacity=true m.moe_expert_capacity_factor=-1", "",
     "error padding-needs-capacity-factor"},
    {"transformer_config.py: a capacity factor needs a loss that balances", experts,
     "m.moe_expert_capacity_factor=1.0 m.moe_router_load_balancing_type=sinkhorn", "",
     "error capacity-factor-needs-aux-loss"},
    {"transformer_config.py: DeepEP pads nothing", experts,
     "ep=8 m.moe_token_dispatcher_type=flex m.moe_pad_expert_input_to_capacity=true "
     "m.moe_expert_capacity_factor=1.0",
     "", "error deepep-excludes-padding"},
    {"transformer_config.py: room by rank is HybridEP's", experts,
     "m.moe_expert_rank_capacity_factor=1.5", "", "error rank-capacity-needs-hybridep"},
    {"transformer_config.py: and the op fuser's", experts,
     "ep=8 m.moe_token_dispatcher_type=flex m.moe_flex_dispatcher_backend=hybridep "
     "m.moe_expert_rank_capacity_factor=1.5",
     "", "error rank-capacity-needs-op-fuser"},
    {"transformer_config.py: padding of the routing map is for fp8", experts,
     "m.moe_token_dispatcher_type=alltoall m.moe_router_padding_for_quantization=true", "",
     "error router-padding-needs-quantization"},
    {"transformer_config.py: and for an all-to-all", experts,
     "mixed_precision=bf16_with_fp8_current_scaling_mixed m.moe_router_padding_for_fp8=true", "",
     "error router-padding-needs-all-to-all"},
    {"transformer_config.py: factor and padding", experts,
     "m.moe_pad_expert_input_to_capacity=true m.moe_expert_capacity_factor=1.0", "", ""},
};

const std::vector<Row> recompute_rows{
    {"transformer_config.py: full needs method and layers", dense, "m.recompute_granularity=full",
     "m.recompute_granularity=\"full\"",
     "error full-recompute-needs-method; error full-recompute-needs-layers"},
    {"transformer_config.py: full with both", dense,
     "m.recompute_granularity=full m.recompute_method=uniform m.recompute_num_layers=1", "", ""},
    {"transformer_config.py: selective excludes a number of layers", dense,
     "m.recompute_granularity=selective m.recompute_num_layers=1", "",
     "error selective-recompute-excludes-layers"},
    {"transformer_config.py: distributed activations exclude sequence parallelism", dense,
     "tp=4 sp=true m.recompute_granularity=selective m.distribute_saved_activations=true", "",
     "error distributed-activations-exclude-sequence-parallel"},
    {"transformer_config.py: with full recompute too", dense,
     "tp=4 sp=true m.recompute_granularity=full m.recompute_method=block m.recompute_num_layers=1 "
     "m.distribute_saved_activations=true",
     "", "error distributed-activations-exclude-sequence-parallel"},
    {"transformer_config.py: unknown modules", dense,
     "m.recompute_granularity=selective m.recompute_modules=[attention]", "",
     "error recompute-module-unknown"},
    {"transformer_config.py: moe_act needs grouped GEMMs", experts,
     "m.recompute_granularity=selective m.recompute_modules=[moe_act] m.moe_grouped_gemm=false", "",
     "error moe-act-recompute-needs-grouped-gemm"},
    {"transformer_config.py: mla_up_proj needs latent attention", dense,
     "m.recompute_granularity=selective m.recompute_modules=[mla_up_proj]", "",
     "error mla-recompute-needs-mla"},
    {"transformer_config.py: gdn_norm_out needs gated delta networks", dense,
     "m.recompute_granularity=selective m.recompute_modules=[gdn_norm_out]", "",
     "error gdn-recompute-needs-gdn"},
    {"transformer_config.py: shared experts that overlap are not run again", latent,
     "m.recompute_granularity=selective m.recompute_modules=[shared_experts] "
     "m.moe_token_dispatcher_type=alltoall m.moe_shared_expert_overlap=true",
     "", "error shared-recompute-excludes-overlap"},
    {"transformer_config.py: delayed scaling excludes layernorm", dense,
     "m.recompute_granularity=selective m.recompute_modules=[layernorm] "
     "mixed_precision=bf16_with_fp8_delayed_scaling_mixed",
     "",
     "error delayed-scaling-excludes-output-discarding; advice layernorm-recompute-has-no-effect"},
    {"recompute.py: the MLP is run again", dense,
     "m.recompute_granularity=selective m.recompute_modules=[mlp]", "", ""},
    {"transformer_config.py: fused attention has nothing to save", dense,
     "m.recompute_granularity=selective", "", "advice core-attention-recompute-saves-nothing"},
    {"transformer_config.py: offload of fewer than all layers", dense,
     "m.cpu_offloading=true m.cpu_offloading_num_layers=32", "",
     "error offload-layers-out-of-range"},
    {"transformer_config.py: offload needs one stage", dense,
     "pp=4 m.cpu_offloading=true m.cpu_offloading_num_layers=2", "",
     "error offload-needs-one-stage"},
    {"transformer_config.py: offload excludes recomputation", dense,
     "m.cpu_offloading=true m.cpu_offloading_num_layers=2 m.recompute_granularity=selective", "",
     "error offload-excludes-recompute"},
    {"transformer_config.py: fine-grained offload names modules", dense,
     "m.fine_grained_activation_offloading=true env_vars.NVTE_CPU_OFFLOAD_V1=1", "",
     "error offload-needs-modules"},
    {"transformer_config.py: modules that there are", dense,
     "m.fine_grained_activation_offloading=true m.offload_modules=[mlp] "
     "env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", "error offload-module-unknown"},
    {"transformer_config.py: a fused MLP is the op fuser's", experts,
     "m.fine_grained_activation_offloading=true m.offload_modules=[fused_group_mlp] "
     "env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", "error fused-offload-needs-op-fuser"},
    {"transformer_config.py: and holds its parts", experts,
     "m.fine_grained_activation_offloading=true m.offload_modules=[fused_group_mlp,moe_act] "
     "m.use_transformer_engine_op_fuser=true env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", "error fused-offload-excludes-parts"},
    {"transformer_config.py: pages hold the experts' activations", experts,
     "ep=8 m.moe_token_dispatcher_type=flex m.moe_flex_dispatcher_backend=hybridep "
     "m.moe_expert_rank_capacity_factor=1.5 m.use_transformer_engine_op_fuser=true "
     "m.moe_paged_stash=true m.fine_grained_activation_offloading=true "
     "m.offload_modules=[moe_act] env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", "error paged-stash-excludes-offload"},
    {"transformer_config.py: and exclude the offload of layers", experts,
     "ep=8 m.moe_token_dispatcher_type=flex m.moe_flex_dispatcher_backend=hybridep "
     "m.moe_expert_rank_capacity_factor=1.5 m.use_transformer_engine_op_fuser=true "
     "m.moe_paged_stash=true m.cpu_offloading=true m.cpu_offloading_num_layers=2",
     "", "error paged-stash-excludes-cpu-offload"},
    {"transformer_config.py: attn_proj only with core_attn", dense,
     "m.fine_grained_activation_offloading=true m.offload_modules=[attn_proj] "
     "env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", "error offload-needs-core-attention"},
    {"transformer_config.py: one form of offload", dense,
     "m.fine_grained_activation_offloading=true m.offload_modules=[core_attn] "
     "env_vars.NVTE_CPU_OFFLOAD_V1=1 m.cpu_offloading=true m.cpu_offloading_num_layers=2",
     "", "error offload-has-one-form"},
    {"transformer_config.py: not inside a MoE layer that runs again", experts,
     "m.fine_grained_activation_offloading=true m.offload_modules=[moe_act] "
     "env_vars.NVTE_CPU_OFFLOAD_V1=1 m.recompute_granularity=selective m.recompute_modules=[moe]",
     "", "error offload-excludes-moe-recompute"},
    {"transformer_config.py: Transformer Engine's layers only", dense,
     "m.fine_grained_activation_offloading=true m.offload_modules=[core_attn] "
     "env_vars.NVTE_CPU_OFFLOAD_V1=1 m.transformer_impl=local",
     "", "error offload-needs-transformer-engine"},
    {"config.py: the engine's first interface from 2.10 on", dense,
     "m.fine_grained_activation_offloading=true m.offload_modules=[core_attn] "
     "software.transformer_engine=2.10",
     "", "error offload-needs-first-interface"},
    {"config.py: not before", dense,
     "m.fine_grained_activation_offloading=true m.offload_modules=[core_attn] "
     "software.transformer_engine=2.9",
     "", ""},
    {"config.py: deterministic training excludes the fused loss", dense,
     "m.deterministic_mode=true env_vars.NCCL_ALGO=Ring "
     "env_vars.NVTE_ALLOW_NONDETERMINISTIC_ALGO=0",
     "", "error deterministic-excludes-loss-fusion"},
    {"config.py: and names the algorithm", dense,
     "m.deterministic_mode=true m.cross_entropy_loss_fusion=false "
     "env_vars.NVTE_ALLOW_NONDETERMINISTIC_ALGO=0",
     "", "error deterministic-needs-algorithm"},
    {"config.py: one of five, letter by letter", dense,
     "m.deterministic_mode=true m.cross_entropy_loss_fusion=false env_vars.NCCL_ALGO=ring "
     "env_vars.NVTE_ALLOW_NONDETERMINISTIC_ALGO=0",
     "", "error deterministic-needs-algorithm"},
    {"transformer_engine.py: and its attention is told", dense,
     "m.deterministic_mode=true m.cross_entropy_loss_fusion=false env_vars.NCCL_ALGO=Ring", "",
     "error deterministic-needs-engine"},
    {"config.py: all of it", dense,
     "m.deterministic_mode=true m.cross_entropy_loss_fusion=false env_vars.NCCL_ALGO=^NVLS "
     "env_vars.NVTE_ALLOW_NONDETERMINISTIC_ALGO=0",
     "", ""},
};

}  // namespace

TEST_CASE("resolution table: model against mesh") {
  for (const Row& row : model_rows) check(row);
}

TEST_CASE("resolution table: recomputation, offload, determinism") {
  for (const Row& row : recompute_rows) check(row);
}
