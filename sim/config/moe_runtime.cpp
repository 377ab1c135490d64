// Dispatcher, capacity and fusions of experts after Bridge's gates
// (megatron/core/transformer/transformer_config.py, transformer/moe/token_dispatcher.py;
// Megatron-Bridge training/flex_dispatcher_backend.py).
#include "sim/config/moe_runtime.h"

#include <algorithm>

#include "sim/config/environment.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using Kind = Finding::Kind;
using Dispatcher = Dispatcher;

constexpr Range sms_range{0, 1024}, sizes{0, 1 << 20};

/// Not where Megatron-LM's own words are read, nor where its release was asked for.
bool bridge_runs(const ScenarioSections& sections, const Scenario& scenario) {
  return sections.dialect == Dialect::bridge &&
         !scenario.software.release.starts_with("Megatron-LM");
}

void read_dispatcher(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  static const std::vector<std::string> dispatchers{"allgather", "alltoall", "flex"},
      backends{"deepep", "hybridep"};
  std::string type = model.choice("moe_token_dispatcher_type", "allgather", dispatchers);
  const std::string backend = model.choice("moe_flex_dispatcher_backend", "deepep", backends);
  MoeRuntime& moe = scenario.moe_runtime;
  moe.shared_overlap = model.boolean("moe_shared_expert_overlap", false);
  if (model.boolean("moe_enable_deepep", false) && type != "flex")
    refuse(sections, scenario, model, "moe_enable_deepep", "deepep-needs-flex",
           "needs moe_token_dispatcher_type flex; got " + type);
  // Bridge lets DeepEP run on compute capability 8 and 9 and on B200 and B300, not on Grace
  // systems; Megatron-Core asks nothing of the GPU.
  const std::string& gpu = scenario.cluster.device.name;
  if (type == "flex" && backend == "deepep" && gpu.starts_with("gb") &&
      bridge_runs(sections, scenario)) {
    type = "alltoall";
    add_finding(scenario, model, "moe_token_dispatcher_type", "flex-falls-back", Kind::silent,
                "\"flex\"", "\"alltoall\"",
                "DeepEP does not support " + gpu +
                    ": Bridge falls back to alltoall and turns shared-expert overlap off");
    moe.shared_overlap = false;
  }
  moe.dispatcher = type == "alltoall"      ? Dispatcher::alltoall
                   : type == "allgather"   ? Dispatcher::allgather
                   : backend == "hybridep" ? Dispatcher::hybridep
                                           : Dispatcher::deepep;
  if (type == "allgather" && model.boolean("variable_seq_lengths", false))
    refuse(sections, scenario, model, "moe_token_dispatcher_type", "allgather-needs-fixed-lengths",
           "'allgather' cannot be combined with variable_seq_lengths");
  if (moe.flex() && scenario.parallel.ep * scenario.parallel.etp < 2)
    refuse(sections, scenario, model, "moe_token_dispatcher_type", "flex-needs-several-ranks",
           "'flex' needs EP x ETP > 1: there is nobody to send to");
  scenario.effective["model.moe_shared_expert_overlap"] = json_text(moe.shared_overlap);
  if (scenario.model.moe.shared_ffn_hidden == 0) moe.shared_overlap = false;
  if (moe.shared_overlap && type == "allgather")
    refuse(sections, scenario, model, "moe_shared_expert_overlap",
           "shared-overlap-needs-all-to-all",
           "needs moe_token_dispatcher_type alltoall or flex; got allgather");
  scenario.effective["model.moe_token_dispatcher_type"] = json_text(type);
  if (moe.flex()) scenario.effective["model.moe_flex_dispatcher_backend"] = json_text(backend);
}

/// SMs and domain of the flex back-ends. One key for both, older ones for either.
void read_flex(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  MoeRuntime& moe = scenario.moe_runtime;
  const std::string both = "moe_flex_dispatcher_num_sms", deep = "moe_deepep_num_sms",
                    hybrid = "moe_hybridep_num_sms";
  const auto common = model.optional_int(both, sms_range);
  const auto for_deep = model.optional_int(deep, sms_range);
  const auto for_hybrid = model.optional_int(hybrid, sms_range);
  moe.preprocess_sms = model.integer("moe_hybridep_num_sms_preprocessing", 108, sms_range);
  moe.permute_in_dispatch = model.boolean("moe_permute_fusion_into_hybridep", false);
  const std::string domain = "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN";
  const auto ranks = environment_count(sections.env_vars, domain, 1, 1 << 20);
  if (moe.dispatcher == Dispatcher::deepep) {
    moe.num_sms = static_cast<int>(for_deep.value_or(common.value_or(20)));
    // deep_ep/buffer.py, set_num_sms: half of them send, half receive.
    if (moe.num_sms % 2 != 0)
      refuse(sections, scenario, model, for_deep ? deep : both, "deepep-needs-even-sms",
             "must be even: half of DeepEP's SMs send and half receive; got " + text(moe.num_sms));
  }
  if (moe.dispatcher != Dispatcher::hybridep) {
    moe.preprocess_sms = 0;
    moe.permute_in_dispatch = false;
    return;
  }
  moe.num_sms = static_cast<int>(for_hybrid.value_or(common.value_or(16)));
  const int group = scenario.parallel.ep * scenario.parallel.etp;
  const int nvlink = scenario.cluster.nvlink_domain;
  moe.ranks_per_domain = std::min(group, ranks.value_or(nvlink));
  if (moe.ranks_per_domain > nvlink)
    refuse(sections, scenario, sections.env_vars, domain, "hybridep-domain-exceeds-nvlink",
           "must be at most the " + text(nvlink) + " GPUs that share NVLink; got " + text(*ranks));
  if (group % moe.ranks_per_domain != 0)
    refuse(sections, scenario, ranks ? sections.env_vars : model,
           ranks ? domain : "expert_model_parallel_size", "hybridep-domains-unequal",
           text(moe.ranks_per_domain) + " ranks a domain must divide EP x ETP = " + text(group));
  scenario.effective["env_vars." + domain] = json_text(int64_t{moe.ranks_per_domain});
}

void read_capacity(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  MoeRuntime& moe = scenario.moe_runtime;
  // Megatron-Core takes any negative factor as none.
  const double capacity = model.number("moe_expert_capacity_factor", -1, -1e6, 1e6);
  if (capacity == 0)
    model.fail("moe_expert_capacity_factor", "must be more than 0, or negative for none; got 0");
  if (capacity >= 0) moe.capacity_factor = capacity;
  moe.pad_to_capacity = model.boolean("moe_pad_expert_input_to_capacity", false);
  if (moe.pad_to_capacity && capacity < 0)
    refuse(sections, scenario, model, "moe_pad_expert_input_to_capacity",
           "padding-needs-capacity-factor", "needs a moe_expert_capacity_factor of 0 or more");
  const std::string balance = model.string("moe_router_load_balancing_type", "aux_loss");
  static const std::vector<std::string> dropping{"aux_loss", "seq_aux_loss", "global_aux_loss",
                                                 "none"};
  if (capacity >= 0 && std::find(dropping.begin(), dropping.end(), balance) == dropping.end())
    refuse(sections, scenario, model, "moe_expert_capacity_factor",
           "capacity-factor-needs-aux-loss",
           "needs moe_router_load_balancing_type aux_loss, seq_aux_loss, global_aux_loss or none; "
           "got " +
               printable(balance));
  const double room = model.number("moe_expert_rank_capacity_factor", -1, -1e6, 1e6);
  if (room > 0 && moe.dispatcher == Dispatcher::hybridep) moe.rank_capacity_factor = room;
  moe.paged_stash = model.boolean("moe_paged_stash", false);
}

/// Room by rank, padding of tokens and of the routing map: what they need.
void check_room(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const MoeRuntime& moe = scenario.moe_runtime;
  const std::string room = "moe_expert_rank_capacity_factor";
  // The back-end counts as it is named, whoever dispatches.
  if (model.has(room) && model.string("moe_flex_dispatcher_backend", "deepep") != "hybridep")
    refuse(sections, scenario, model, room, "rank-capacity-needs-hybridep",
           "needs moe_flex_dispatcher_backend hybridep");
  else if (model.has(room) && !moe.op_fuser)
    refuse(sections, scenario, model, room, "rank-capacity-needs-op-fuser",
           "needs use_transformer_engine_op_fuser");
  if (moe.dispatcher == Dispatcher::deepep && moe.pad_to_capacity)
    refuse(sections, scenario, model, "moe_pad_expert_input_to_capacity", "deepep-excludes-padding",
           "cannot be combined with the flex dispatcher's deepep");
  const std::string key = model.boolean("moe_router_padding_for_quantization", false)
                              ? "moe_router_padding_for_quantization"
                              : "moe_router_padding_for_fp8";
  if (!moe.pad_for_quantization) return;
  if (scenario.precision.fp8 == Fp8Recipe::none)
    refuse(sections, scenario, model, key, "router-padding-needs-quantization",
           "needs fp8 or fp4 compute");
  if (moe.dispatcher == Dispatcher::allgather)
    refuse(sections, scenario, model, key, "router-padding-needs-all-to-all",
           "needs moe_token_dispatcher_type alltoall or flex; got allgather");
}

/// Group-limited routing. Without moe_router_group_topk Megatron-Core reads no groups.
void check_router(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  Moe& moe = scenario.model.moe;
  const std::string groups = "moe_router_num_groups", top = "moe_router_group_topk";
  const bool pre_softmax = model.boolean("moe_router_pre_softmax", false);
  if (moe.top_k == 1 && !pre_softmax && !moe.sigmoid_scores &&
      model.string("moe_router_load_balancing_type", "aux_loss") != "sinkhorn")
    refuse(sections, scenario, model, "moe_router_pre_softmax", "top1-needs-pre-softmax",
           "must be true with moe_router_topk 1: a softmax over one expert is always 1");
  if (model.boolean("moe_router_enable_expert_bias", false) && !moe.sigmoid_scores)
    refuse(sections, scenario, model, "moe_router_enable_expert_bias", "expert-bias-needs-sigmoid",
           "needs moe_router_score_function sigmoid or sqrtsoftplus");
  if (moe.groups_top_k == 0) return;
  if (moe.groups == 0)
    refuse(sections, scenario, model, top, "group-topk-needs-groups", "needs " + groups);
  else if (moe.experts % moe.groups != 0)
    refuse(sections, scenario, model, model.has(groups) ? groups : "num_moe_experts",
           "router-groups-do-not-divide-experts",
           text(moe.groups) + " router groups must divide " + text(moe.experts) + " experts");
  else if (moe.groups_top_k > moe.groups)
    refuse(
        sections, scenario, model, top, "group-topk-exceeds-groups",
        "must be at most " + groups + ", " + text(moe.groups) + "; got " + text(moe.groups_top_k));
  else
    return;
  moe.groups = moe.groups_top_k = 0;  // a check goes on behind what it refuses
}

/// Rows that a quantised GEMM needs: 16 values share the alignment of a tensor-wide scale, 32 one
/// scale of a block (megatron/core/fp8_utils.py, get_fp8_align_size); the fused grouped path of
/// Transformer Engine works in tiles of 256 rows.
int pad_multiple(const MoeRuntime& moe, const Precision& precision) {
  switch (precision.fp8) {
    case Fp8Recipe::none:
      return 1;
    case Fp8Recipe::mxfp8:
    case Fp8Recipe::nvfp4:
      return moe.op_fuser ? 256 : 32;
    default:
      return 16;
  }
}

}  // namespace

void resolve_moe_runtime(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  MoeRuntime& moe = scenario.moe_runtime;
  read_dispatcher(sections, scenario);
  read_flex(sections, scenario);
  read_capacity(sections, scenario);
  moe.grouped_gemm = model.boolean("moe_grouped_gemm", true);
  moe.permute_fusion = model.boolean("moe_permute_fusion", false);
  moe.router_fusion = model.boolean("moe_router_fusion", false);
  moe.op_fuser = model.boolean("use_transformer_engine_op_fuser", false);
  moe.balanced = model.boolean("moe_router_force_load_balancing", false);
  moe.high_priority_stream = model.boolean("high_priority_a2a_comm_stream", false);
  moe.overlap_dispatch_backward =
      model.boolean("overlap_dispatch_backward_with_experts_wgrad", false);
  const bool older_name = model.boolean("moe_router_padding_for_fp8", false);
  moe.pad_for_quantization =
      model.boolean("moe_router_padding_for_quantization", false) || older_name;
  moe.pad_multiple = pad_multiple(moe, scenario.precision);
  // Transformer Engine's fused kernels (NVTE_CUTEDSL_FUSED_GROUPED_MLP) are MXFP8's on Blackwell
  // and take gate and linear halves interleaved by 32.
  const int interleave = model.integer("moe_mlp_glu_interleave_size", 0, sizes);
  moe.fused_grouped_mlp = moe.op_fuser && interleave == 32 &&
                          scenario.precision.fp8 == Fp8Recipe::mxfp8 &&
                          scenario.cluster.device.architecture == "blackwell";
  check_room(sections, scenario);
  check_router(sections, scenario);
}

}  // namespace stepsim
