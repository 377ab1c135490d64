// Resolution of CUDA graphs: what they hold, what they may not hold, what Bridge asks beside them.
#include "tests/config/resolution_table.h"

using namespace stepsim::table;

namespace {

using enum Base;
const std::vector<Row> scope_rows{
    {"transformer_config.py: no graphs, no scope", dense, "m.cuda_graph_scope=[attn]",
     "m.cuda_graph_impl=\"none\" m.cuda_graph_scope=[]", "silent graph-scope-without-effect"},
    {"transformer_config.py: attention of a dense model", dense,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[attn] m.use_te_rng_tracker=true",
     "m.cuda_graph_scope=[\"attn\"]", "", "graphs-need-rng-tracker"},
    {"transformer_config.py: local graphs hold the router and what follows", experts,
     "m.cuda_graph_impl=local m.cuda_graph_scope=[moe_router]",
     "m.cuda_graph_scope=[\"moe_router\",\"moe_preprocess\"]",
     "silent graph-scope-completed; advice local-graphs-hold-iterations"},
    {"transformer_config.py: and the other way round", experts,
     "m.cuda_graph_impl=local m.cuda_graph_scope=[moe_preprocess]",
     "m.cuda_graph_scope=[\"moe_preprocess\",\"moe_router\"]", "silent graph-scope-completed"},
    {"transformer_config.py: Transformer Engine's do not", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe_router]",
     "m.cuda_graph_scope=[\"moe_router\"]", ""},
    {"transformer_config.py: there the one needs the other", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe_preprocess]", "",
     "error graph-preprocess-needs-router"},
    {"transformer_config.py: the router is in the MoE layer", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe,moe_router] "
     "m.moe_pad_expert_input_to_capacity=true m.moe_expert_capacity_factor=1.0",
     "", "error graph-scope-moe-twice"},
    {"transformer_config.py: parts of a MoE layer need one", dense,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe_router]", "",
     "error graph-scope-needs-experts"},
    {"transformer_config.py: a dense MLP needs one", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[mlp]", "",
     "error graph-scope-needs-dense-layers"},
    {"transformer_config.py: DeepSeek's first layer has one", latent,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[mlp]", "", ""},
    {"transformer_config.py: a whole MoE layer is padded", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe]", "",
     "error graph-moe-needs-padding"},
    {"transformer_config.py: dropped and padded", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe] "
     "m.moe_pad_expert_input_to_capacity=true m.moe_expert_capacity_factor=1.0",
     "", ""},
    {"transformer_config.py: counts that go to the host are not captured", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe_router,moe_preprocess] "
     "m.moe_token_dispatcher_type=alltoall m.moe_expert_capacity_factor=1.0",
     "", "error graph-preprocess-synchronises"},
    {"transformer_config.py: nor with padding for fp8", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe_router,moe_preprocess] "
     "m.moe_token_dispatcher_type=alltoall m.moe_router_padding_for_fp8=true "
     "mixed_precision=bf16_with_fp8_current_scaling_mixed",
     "", "error graph-preprocess-synchronises"},
    {"transformer_config.py: without either they are", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe_router,moe_preprocess] "
     "m.moe_token_dispatcher_type=alltoall",
     "", ""},
    {"transformer_config.py: an iteration is no list of parts", dense,
     "m.cuda_graph_impl=full_iteration m.cuda_graph_scope=[attn]", "",
     "error iteration-graph-excludes-parts"},
    {"transformer_config.py: in the older spelling too", dense,
     "m.cuda_graph_impl=local m.cuda_graph_scope=[full_iteration,attn]", "",
     "error iteration-graph-excludes-parts"},
    {"transformer_config.py: expert overlap graphs neither MLP nor MoE", latent,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[attn,mlp]",
     "", "error ep-overlap-excludes-mlp-graphs"},
    {"transformer_config.py: attention it does", latent,
     "ep=8 m.moe_token_dispatcher_type=alltoall section o.overlap_moe_expert_parallel_comm=true "
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[attn]",
     "", ""},
};

const std::vector<Row> beside_rows{
    {"transformer_config.py: no offload of layers", dense,
     "m.cuda_graph_impl=transformer_engine m.cpu_offloading=true m.cpu_offloading_num_layers=2", "",
     "error graphs-exclude-cpu-offload"},
    {"transformer_config.py: but in a graph of the iteration", dense,
     "m.cuda_graph_impl=full_iteration m.cpu_offloading=true m.cpu_offloading_num_layers=2", "",
     ""},
    {"transformer_config.py: full recomputation in a graph of the iteration only", dense,
     "m.cuda_graph_impl=transformer_engine m.recompute_granularity=full "
     "m.recompute_method=uniform m.recompute_num_layers=1",
     "", "error graphs-exclude-full-recompute"},
    {"transformer_config.py: there it runs", dense,
     "m.cuda_graph_impl=full_iteration m.recompute_granularity=full m.recompute_method=uniform "
     "m.recompute_num_layers=1",
     "", ""},
    {"transformer_config.py: no graph inside what runs again", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe_router] "
     "m.recompute_granularity=selective m.recompute_modules=[moe]",
     "", "error graph-router-excludes-moe-recompute"},
    {"transformer_config.py: attention run again draws no numbers", dense,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[attn] m.attention_dropout=0.1 "
     "m.recompute_granularity=selective m.recompute_modules=[core_attn]",
     "", "error graphed-recompute-excludes-randomness"},
    {"transformer_config.py: beside a graph it may", dense,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[mlp] m.attention_dropout=0.1 "
     "m.recompute_granularity=selective m.recompute_modules=[core_attn]",
     "", ""},
    {"transformer_config.py: nor does the MLP of a whole layer", dense,
     "m.cuda_graph_impl=transformer_engine m.hidden_dropout=0.1 m.recompute_granularity=selective "
     "m.recompute_modules=[mlp]",
     "", "error graphed-recompute-excludes-randomness"},
    {"transformer_config.py: nor the router's input", experts,
     "m.cuda_graph_impl=full_iteration m.moe_input_jitter_eps=0.01 "
     "m.recompute_granularity=selective m.recompute_modules=[moe]",
     "", "error graphed-recompute-excludes-randomness"},
    {"transformer_config.py: fine-grained offload beside local graphs is the experts'", experts,
     "m.cuda_graph_impl=local m.cuda_graph_scope=[attn] "
     "m.fine_grained_activation_offloading=true m.offload_modules=[core_attn] "
     "env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", "error local-graphs-limit-offload"},
    {"transformer_config.py: and not of whole layers", experts,
     "m.cuda_graph_impl=local m.fine_grained_activation_offloading=true "
     "m.offload_modules=[moe_act] env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", "error local-graphs-of-layers-exclude-offload"},
    {"transformer_config.py: of parts it is", experts,
     "m.cuda_graph_impl=local m.cuda_graph_scope=[attn] "
     "m.fine_grained_activation_offloading=true m.offload_modules=[moe_act] "
     "env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", ""},
    {"transformer_config.py: no captured MoE layer beside offload", experts,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[moe] "
     "m.moe_pad_expert_input_to_capacity=true m.moe_expert_capacity_factor=1.0 "
     "m.fine_grained_activation_offloading=true m.offload_modules=[core_attn] "
     "env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", "error graph-moe-excludes-offload"},
    {"transformer_config.py: offload warms up first", dense,
     "m.cuda_graph_impl=transformer_engine m.cuda_graph_scope=[attn] m.cuda_graph_warmup_steps=0 "
     "m.fine_grained_activation_offloading=true m.offload_modules=[core_attn] "
     "env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", "error graphed-offload-needs-warm-up"},
    {"transformer_config.py: in a graph of the iteration it is limited", dense,
     "m.cuda_graph_impl=full_iteration m.fine_grained_activation_offloading=true "
     "m.offload_modules=[core_attn] env_vars.NVTE_CPU_OFFLOAD_V1=1",
     "", "error iteration-graph-needs-offload-limit"},
    {"gpt_provider.py: graphs need Transformer Engine's random numbers", dense,
     "m.cuda_graph_impl=transformer_engine", "", "advice graphs-need-rng-tracker"},
    {"config.py: either section gives them", dense,
     "m.cuda_graph_impl=transformer_engine rng.te_rng_tracker=true", "", "",
     "graphs-need-rng-tracker"},
    {"gpt_provider.py: said to be off, they are missing", dense,
     "m.cuda_graph_impl=transformer_engine m.use_te_rng_tracker=false", "",
     "error graphs-need-rng-tracker"},
    {"config.py: a graph of the iteration looks at no loss", dense,
     "m.cuda_graph_impl=full_iteration", "", "advice iteration-graph-excludes-nan-check"},
    {"config.py: said to look, it cannot", dense,
     "m.cuda_graph_impl=full_iteration rerun_state_machine.check_for_nan_in_loss=true", "",
     "error iteration-graph-excludes-nan-check"},
    {"config.py: said not to", dense,
     "m.cuda_graph_impl=full_iteration rerun_state_machine.check_for_nan_in_loss=false", "", "",
     "iteration-graph-excludes-nan-check"},
    {"cuda_graph.py: Bridge's local graphs are iterations", dense,
     "m.cuda_graph_impl=local m.cuda_graph_scope=[attn]", "",
     "advice local-graphs-hold-iterations"},
    {"arguments.py: Megatron-LM's are not", megatron_lm,
     "m.cuda_graph_impl=local m.cuda_graph_scope=[attn]", "", "", "local-graphs-hold-iterations"},
};

}  // namespace

TEST_CASE("resolution table: what CUDA graphs hold") {
  for (const Row& row : scope_rows) check(row);
}

TEST_CASE("resolution table: what CUDA graphs exclude") {
  for (const Row& row : beside_rows) check(row);
}
