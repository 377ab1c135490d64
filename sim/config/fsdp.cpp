// What Megatron-FSDP asks for and changes (Megatron-Bridge training/config.py), and PyTorch's FSDP2
// (Megatron-LM training/arguments.py).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using Kind = Finding::Kind;

bool any_is_true(std::initializer_list<const Reader*> readers, const std::string& key) {
  return std::any_of(readers.begin(), readers.end(),
                     [&](const Reader* reader) { return reader->boolean(key, false); });
}

/// checkpoint.`key` when it is a text; "" otherwise.
std::string checkpoint_text(const ScenarioSections& sections, const char* key) {
  const nlohmann::json* checkpoint = sections.top.find("checkpoint");
  if (checkpoint == nullptr || !checkpoint->is_object()) return {};
  const auto found = checkpoint->find(key);
  return found != checkpoint->end() && found->is_string() ? found->get<std::string>() : "";
}

/// What Megatron-LM's arguments.py asks of FSDP2 beside the sizes.
void check_torch_form(const ScenarioSections& sections, Scenario& scenario) {
  if (sections.dialect != Dialect::megatron_lm) return;
  if (scenario.gradient_accumulation_fusion)
    refuse(sections, scenario, sections.model, "gradient_accumulation_fusion",
           "torch-fsdp-excludes-fused-accumulation", "must be false with use_torch_fsdp2");
  if (scenario.model.tied_embeddings)
    refuse(sections, scenario, sections.model, "share_embeddings_and_output_weights",
           "torch-fsdp-needs-untied-embeddings", "must be false with use_torch_fsdp2");
}

/// Megatron-FSDP's second version: data parallelism alone, in bf16, which hides nothing.
void check_second_version(const ScenarioSections& sections, Scenario& scenario, bool stored) {
  const Reader& ddp = sections.ddp;
  const Parallelism& p = scenario.parallel;
  const std::string key = "megatron_fsdp_version";
  const auto no = [&](const std::string& id, const std::string& reason) {
    refuse(sections, scenario, ddp, key, id, "2 " + reason);
  };
  if (p.tp > 1 || p.pp > 1 || p.cp > 1 || p.vp)
    no("fsdp-v2-is-data-parallel-only", "needs TP, PP and CP 1 and no VP; got TP " + text(p.tp) +
                                            ", PP " + text(p.pp) + ", CP " + text(p.cp));
  if (scenario.precision.parameters != Dtype::bf16 || scenario.precision.fp8 != Fp8Recipe::none)
    no("fsdp-v2-needs-bf16", "needs bf16 without fp8 or fp4");
  if (p.pp_before_dp)
    no("fsdp-needs-default-order", "cannot be combined with use_tp_pp_dp_mapping");
  if (stored) no("fsdp-v2-stores-nothing", "can neither save nor load checkpoints");
  if (sections.model.boolean("calculate_per_token_loss", false))
    no("fsdp-v2-excludes-per-token-loss", "cannot be combined with calculate_per_token_loss");
  if (sections.optimizer.boolean("optimizer_cpu_offload", false))
    no("fsdp-v2-excludes-optimizer-offload", "cannot be combined with optimizer_cpu_offload");
  const auto off = [&](const std::string& name, bool& flag) {
    if (flag)
      add_finding(scenario, ddp, name, "fsdp-v2-switches-off", Kind::silent, "true", "false",
                  "the second version of Megatron-FSDP owns its parameters and gradients; Bridge "
                  "switches this off");
    flag = false;
    scenario.effective["ddp." + name] = "false";
  };
  off("overlap_grad_reduce", scenario.overlap.overlap_grad_reduce);
  off("overlap_param_gather", scenario.overlap.overlap_param_gather);
  off("use_distributed_optimizer", scenario.data_parallel.distributed_optimizer);
  not_simulated(sections, scenario, ddp, key,
                "asks for the second version of Megatron-FSDP, which is not simulated");
}

}  // namespace

void check_fully_sharded(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& ddp = sections.ddp;
  const Parallelism& p = scenario.parallel;
  const bool by_hand = ddp.boolean("fsdp_manual_registration", false),
             reuse = ddp.boolean("reuse_grad_buf_for_mxfp8_param_ag", false);
  const int version = ddp.integer("megatron_fsdp_version", 1, {1, 2});
  const bool torch = any_is_true({&ddp, &sections.dist}, "use_torch_fsdp2");
  const bool fsdp = scenario.data_parallel.fully_sharded == FullySharded::megatron;
  if (torch && fsdp)
    refuse(sections, scenario, ddp, "use_torch_fsdp2", "fsdp-has-one-form",
           "cannot be combined with use_megatron_fsdp");
  if (torch && (p.pp > 1 || p.ep > 1))
    refuse(sections, scenario, ddp, "use_torch_fsdp2", "torch-fsdp-is-data-parallel-only",
           "needs PP 1 and EP 1; got PP " + text(p.pp) + ", EP " + text(p.ep));
  if (torch && scenario.precision.parameters != Dtype::bf16)
    refuse(sections, scenario, ddp, "use_torch_fsdp2", "torch-fsdp-needs-bf16", "needs bf16");
  if (torch && scenario.data_parallel.distributed_optimizer)
    refuse(sections, scenario, ddp, "use_torch_fsdp2", "torch-fsdp-excludes-distributed-optimizer",
           "cannot be combined with use_distributed_optimizer");
  if (torch) check_torch_form(sections, scenario);
  const bool stored =
      !checkpoint_text(sections, "save").empty() || !checkpoint_text(sections, "load").empty();
  const bool sharded_format = checkpoint_text(sections, "ckpt_format") == "fsdp_dtensor";
  if (stored && sharded_format && !fsdp)
    refuse(sections, scenario, sections.top, "checkpoint", "dtensor-checkpoints-need-fsdp",
           "must not have ckpt_format fsdp_dtensor without Megatron-FSDP");
  if (!fsdp) return;
  if (version == 2) return check_second_version(sections, scenario, stored);
  if (p.pp_before_dp)
    refuse(sections, scenario, sections.dist, "use_tp_pp_dp_mapping", "fsdp-needs-default-order",
           "cannot be combined with Megatron-FSDP");
  if (p.vp.value_or(1) > 1 &&
      scenario.effective["model.overlap_moe_expert_parallel_comm"] == "true")
    refuse(sections, scenario, sections.model, "virtual_pipeline_model_parallel_size",
           "ep-overlap-excludes-interleaved-fsdp",
           "must be null when Megatron-FSDP and overlap_moe_expert_parallel_comm are combined");
  if (stored && !sharded_format)
    refuse(sections, scenario, sections.top, "checkpoint", "fsdp-needs-dtensor-checkpoints",
           "must have ckpt_format fsdp_dtensor with Megatron-FSDP");
  if (scenario.launch_env.max_connections_set && scenario.launch_env.max_connections == 1)
    refuse(sections, scenario, sections.env_vars, "CUDA_DEVICE_MAX_CONNECTIONS",
           "fsdp-needs-several-queues",
           "must not be 1 with Megatron-FSDP: its gathers would wait behind compute");
  if (by_hand && !ddp.boolean("nccl_ub", false))
    refuse(sections, scenario, ddp, "fsdp_manual_registration",
           "manual-registration-needs-nccl-buffers", "needs nccl_ub");
  if (reuse)
    add_finding(scenario, ddp, "reuse_grad_buf_for_mxfp8_param_ag", "fsdp-clears-buffer-reuse",
                Kind::silent, "true", "false",
                "Megatron-FSDP has its own buffers; Bridge switches the reuse off");
  if (!scenario.data_parallel.distributed_optimizer) {
    scenario.data_parallel.distributed_optimizer = true;
    scenario.effective["ddp.use_distributed_optimizer"] = "true";
    add_finding(scenario, ddp, "use_distributed_optimizer", "fsdp-forces-distributed-optimizer",
                Kind::silent, "false", "true",
                "Megatron-FSDP shards the optimizer; Bridge switches the distributed optimizer on");
  }
  if (scenario.data_parallel.average_in_collective &&
      !ddp.boolean("disable_symmetric_registration", false)) {
    scenario.data_parallel.average_in_collective = false;
    scenario.effective["ddp.average_in_collective"] = "false";
    add_finding(scenario, ddp, "average_in_collective", "fsdp-clears-average-in-collective",
                Kind::silent, "true", "false",
                "Bridge switches average_in_collective off under Megatron-FSDP");
  }
}

}  // namespace stepsim
