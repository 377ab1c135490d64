// Resolution of mesh sizes, batch, pipeline splits and schedules: what Megatron raises.
#include "tests/config/resolution_table.h"

using namespace stepsim::table;

namespace {

using enum Base;
const std::vector<Row> mesh_rows{
    {"config.py: TP x PP x CP must divide the world; DP is what is left (B5)", dense,
     "cluster.gpus=30 tp=4 gbs=126", "", "error world-not-divisible"},
    {"parallel_state.py: ETP x EP x PP must divide it too (B5)", experts,
     "cluster.gpus=12 gbs=120 ep=8", "", "error expert-world-not-divisible"},
    {"parallel_state.py: pipeline before data needs equal data parallelism", experts,
     "tp=2 sp=true pp=2 ep=4 dist.use_tp_pp_dp_mapping=true", "",
     "error rank-order-unsupported; silent etp-default-is-one"},
    {"parallel_state.py: which TP = EP x ETP gives", experts,
     "tp=2 sp=true pp=2 ep=2 dist.use_tp_pp_dp_mapping=true", "etp=1", "silent etp-default-is-one"},
    {"parallel_state.py: instances of the optimizer divide DP x CP", dense,
     "sharded d.num_distributed_optimizer_instances=3", "",
     "error optimizer-instances-do-not-divide"},
    {"parallel_state.py: four instances divide 32", dense,
     "sharded d.num_distributed_optimizer_instances=4", "", ""},
    {"distributed_data_parallel.py: slices are of the distributed optimizer", dense,
     "d.num_distributed_optimizer_instances=4", "",
     "error optimizer-instances-need-distributed-optimizer"},
    {"parallel_state.py: and the expert data parallelism", experts,
     "sharded ep=8 d.num_distributed_optimizer_instances=8", "",
     "error optimizer-instances-do-not-divide"},
    {"parallel_state.py: VP needs PP above 1", dense, "vp=2", "vp=null", "error vp-needs-pp"},
    {"parallel_state.py: hierarchical sizes multiply to CP", dense,
     "cp=4 m.hierarchical_context_parallel_sizes=[2,4]", "", "error hierarchical-cp-product"},
    {"config.py: a2a+p2p needs hierarchical sizes (B4)", dense, "cp=4 m.cp_comm_type=a2a+p2p", "",
     "error a2a-p2p-needs-hierarchy"},
    {"config.py: even without context parallelism", dense, "m.cp_comm_type=a2a+p2p", "",
     "error a2a-p2p-needs-hierarchy"},
    {"config.py: a2a+p2p with them", dense,
     "cp=4 m.cp_comm_type=a2a+p2p m.hierarchical_context_parallel_sizes=[2,2]", "", ""},
    {"config.py: levels need global process groups", dense,
     "cp=4 m.cp_comm_type=a2a+p2p m.hierarchical_context_parallel_sizes=[2,2] "
     "dist.use_decentralized_pg=true",
     "", "error hierarchical-cp-excludes-decentralized-groups"},
    {"context_parallel.py: an all-to-all and a ring, no third level", dense,
     "cp=4 m.cp_comm_type=a2a+p2p m.hierarchical_context_parallel_sizes=[4]", "",
     "error a2a-p2p-has-two-levels"},
    {"context_parallel.py: an all-to-all shares heads out evenly", dense,
     "tp=4 cp=4 m.cp_comm_type=a2a", "", "error a2a-does-not-divide-heads"},
    {"context_parallel.py: a ring passes no window", dense, "cp=2 m.window_size=[127,0]", "",
     "error window-needs-a2a-or-all-gather"},
    {"context_parallel.py: an all-gather does", dense,
     "cp=2 m.window_size=[127,0] m.cp_comm_type=all_gather", "", ""},
    {"num_microbatches_calculator.py: the batch is a multiple of micro batch x DP", dense,
     "gbs=100", "gbs=100", "error batch-not-divisible"},
    {"num_microbatches_calculator.py: or is rounded down on demand", dense,
     "gbs=100 train.decrease_batch_size_if_needed=true", "gbs=96", "silent batch-rounded-down"},
    {"num_microbatches_calculator.py: but never to nothing", dense,
     "gbs=16 train.decrease_batch_size_if_needed=true", "", "error batch-not-divisible"},
    {"moe_layer.py: EP divides the experts", experts, "ep=16", "",
     "error ep-does-not-divide-experts"},
};

const std::vector<Row> split_rows{
    {"transformer_block.py: PP divides the layers", dense, "pp=4 m.num_layers=30", "",
     "error layers-not-divisible"},
    {"gpt_provider.py: VP divides the layers of a stage", dense, "pp=4 vp=3", "",
     "error layers-per-stage-not-divisible"},
    {"transformer_config.py: embedding and loss count as a layer each", dense,
     "pp=4 vp=8 m.num_layers=30 m.account_for_embedding_in_pipeline_split=true "
     "m.account_for_loss_in_pipeline_split=true",
     "vp=8", ""},
    {"transformer_config.py: one of them alone", dense,
     "pp=4 m.num_layers=31 m.account_for_loss_in_pipeline_split=true", "", ""},
    {"transformer_config.py: and the sum must divide", dense,
     "pp=4 m.account_for_embedding_in_pipeline_split=true", "", "error layers-not-divisible"},
    {"transformer_config.py: counted layers per rank divide by VP too", dense,
     "pp=4 vp=3 m.num_layers=31 m.account_for_loss_in_pipeline_split=true", "",
     "error layers-per-stage-not-divisible"},
    {"transformer_config.py: uneven stages exclude the account_for flags", dense,
     "pp=4 m.num_layers_in_first_pipeline_stage=5 m.account_for_loss_in_pipeline_split=true", "",
     "error split-rules-exclude-each-other"},
    {"transformer_config.py: 5 9 9 9", dense, "pp=4 m.num_layers_in_first_pipeline_stage=5", "",
     ""},
    {"transformer_config.py: an uneven stage is a multiple of VP, and so is the rest", dense,
     "pp=4 vp=2 m.num_layers_in_last_pipeline_stage=5", "",
     "error stage-layers-not-divisible; error layers-per-stage-not-divisible"},
    {"transformer_config.py: the rest divides over the rest", dense,
     "pp=4 m.num_layers_in_first_pipeline_stage=6", "", "error layers-not-divisible"},
    {"transformer_config.py: layers left and no stage for them", dense,
     "pp=2 m.num_layers_in_first_pipeline_stage=10 m.num_layers_in_last_pipeline_stage=10", "",
     "error layers-left-over"},
    {"transformer_config.py: stages left and no layer for them", dense,
     "pp=4 m.num_layers_in_first_pipeline_stage=16 m.num_layers_in_last_pipeline_stage=16", "",
     "error layers-not-divisible"},
    {"transformer_config.py: both ends hold all", dense,
     "pp=2 m.num_layers_in_first_pipeline_stage=14 m.num_layers_in_last_pipeline_stage=18", "", ""},
    {"transformer_config.py: an uneven stage needs a pipeline", dense,
     "m.num_layers_in_first_pipeline_stage=5", "", "error uneven-split-needs-pp"},
    {"transformer_config.py: more layers than there are", dense,
     "pp=2 m.num_layers_in_first_pipeline_stage=40", "", "error stage-layers-too-many"},
    {"transformer_config.py: a stage holds a layer or more", dense,
     "pp=2 m.num_layers_in_first_pipeline_stage=0", "", "", "",
     "must be an integer from 1 to 8192; got 0"},
    {"pipeline_parallel_layer_layout.py: VP follows from the stages", dense,
     "pp=4 m.pipeline_model_parallel_layout=Et*4|(t*4|)*6t*4L", "vp=2", ""},
    {"pipeline_parallel_layer_layout.py: a list of lists, VP 1", dense,
     R"(pp=2 m.num_layers=2 m.pipeline_model_parallel_layout=[["embedding","decoder"],["decoder","loss"]])",
     "vp=null", ""},
    {"transformer_config.py: VP that contradicts the layout", dense,
     "pp=4 vp=4 m.pipeline_model_parallel_layout=Et*4|(t*4|)*6t*4L", "", "error layout-against-vp"},
    {"pipeline_parallel_layer_layout.py: all decoder layers", dense,
     "pp=4 m.pipeline_model_parallel_layout=Et*8|t*8|t*8|t*7L", "", "error layout-broken"},
    {"pipeline_parallel_layer_layout.py: the first is the embedding", dense,
     "pp=4 m.pipeline_model_parallel_layout=t*8|Et*8|t*8|t*8L", "", "error layout-broken"},
    {"pipeline_parallel_layer_layout.py: the last is the loss", dense,
     "pp=4 m.pipeline_model_parallel_layout=Et*8|t*8|t*8L|t*8", "", "error layout-broken"},
    {"pipeline_parallel_layer_layout.py: unknown letters", dense,
     "pp=4 m.pipeline_model_parallel_layout=Et*8|d*8|t*8|t*8L", "", "error layout-unreadable"},
    {"pipeline_parallel_layer_layout.py: stages are a multiple of PP", dense,
     "pp=4 m.pipeline_model_parallel_layout=Et*16|t*8|t*8L", "", "error layout-stages"},
    {"pipeline_parallel_layer_layout.py: prediction modules are those of the model", dense,
     "pp=4 m.pipeline_model_parallel_layout=Et*8|t*8|t*8|t*8mL", "", "error layout-broken"},
    {"pipeline_parallel_layer_layout.py: one prediction module on the last stage", dense,
     "pp=4 m.mtp_num_layers=1 m.pipeline_model_parallel_layout=Et*8|t*8|t*8|t*8mL", "", ""},
    {"pipeline_parallel_layer_layout.py: none on pipeline rank 0", dense,
     "pp=4 m.mtp_num_layers=1 m.pipeline_model_parallel_layout=Et*8m|t*8|t*8|t*8L", "",
     "error layout-broken"},
    {"transformer_config.py: a layout excludes the other rules", dense,
     "pp=4 m.account_for_loss_in_pipeline_split=true "
     "m.pipeline_model_parallel_layout=Et*8|t*8|t*8|t*8L",
     "", "error split-rules-exclude-each-other"},
};

const std::vector<Row> schedule_rows{
    {"schedules.py: a microbatch group of PP or more", dense,
     "pp=4 vp=2 m.microbatch_group_size_per_vp_stage=2", "", "error microbatch-group-out-of-range"},
    {"schedules.py: and of at most all microbatches", dense,
     "pp=4 vp=2 m.microbatch_group_size_per_vp_stage=17", "",
     "error microbatch-group-out-of-range"},
    {"schedules.py: the default group PP needs PP microbatches", dense, "pp=4 vp=2 gbs=16", "",
     "error microbatch-group-out-of-range"},
    {"schedules.py: with the default group, M % PP == 0", dense, "pp=4 vp=2 gbs=144", "",
     "error last-microbatch-group-too-small"},
    {"schedules.py: 18 = 7 + 7 + 4 is fine", dense,
     "pp=4 vp=2 gbs=144 m.microbatch_group_size_per_vp_stage=7", "", ""},
    {"schedules.py: 17 = 7 + 7 + 3 is not", dense,
     "pp=4 vp=2 gbs=136 m.microbatch_group_size_per_vp_stage=7", "",
     "error last-microbatch-group-too-small"},
    {"schedules.py: plain 1F1B has no such rule", dense, "pp=4 gbs=136", "", ""},
    {"schedules.py: VP = 1 is bound by them too", dense, "pp=4 vp=1 gbs=16", "",
     "error microbatch-group-out-of-range; advice vp-one-is-interleaved"},
};

}  // namespace

TEST_CASE("resolution table: mesh and batch") {
  for (const Row& row : mesh_rows) check(row);
}

TEST_CASE("resolution table: pipeline splits") {
  for (const Row& row : split_rows) check(row);
}

TEST_CASE("resolution table: schedules") {
  for (const Row& row : schedule_rows) check(row);
}
