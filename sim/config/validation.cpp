// Checks of Megatron-Bridge's ConfigContainer.validate and of Megatron-Core's configurations that
// concern settings beside the meshes (training/config.py, transformer_config.py,
// parallel_state.py).
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using Kind = Finding::Kind;

/// A version that is given and below `major`.`minor`.
bool older(const std::string& version, int major, int minor) {
  const size_t dot = version.find('.');
  const auto number = [](std::string_view digits) {
    int value = -1;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  const int first = number(version);
  if (first < 0) return false;
  const int second =
      dot == std::string::npos ? 0 : number(std::string_view(version).substr(dot + 1));
  return first < major || (first == major && second < minor);
}

bool engine_layers(const Reader& model) {
  return model.string("transformer_impl", "transformer_engine") == "transformer_engine";
}

/// Fine-tuning masks tokens, so ranks of one sequence average unequal losses (config.py).
void validate_finetuning(const ScenarioSections& sections, Scenario& scenario) {
  if (scenario.parallel.cp < 2 || !sections.dataset.present()) return;
  const std::string class_key = "_target_";
  const nlohmann::json* target = sections.dataset.find(class_key);
  if (target == nullptr || !target->is_string()) return;
  // The older name, then those of Bridge's present data sets.
  static const std::vector<std::string> names{"Finetuning", "SFTDatasetConfig",
                                              "EnergonDatasetConfig"};
  const std::string& written = target->get_ref<const std::string&>();
  if (std::none_of(names.begin(), names.end(),
                   [&](const std::string& n) { return written.find(n) != std::string::npos; }))
    return;
  if (!sections.model.boolean("calculate_per_token_loss", false))
    refuse(sections, scenario, sections.model, "calculate_per_token_loss",
           "finetuning-needs-per-token-loss", "must be true when fine-tuning with CP > 1");
  if (scenario.data_parallel.average_in_collective)
    refuse(sections, scenario, sections.ddp, "average_in_collective",
           "finetuning-excludes-average-in-collective",
           "must be false when fine-tuning with CP > 1");
}

void validate_sharding(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& ddp = sections.ddp;
  const Parallelism& p = scenario.parallel;
  const int64_t ranks = int64_t{p.dp} * p.cp;
  const int64_t n = ddp.integer("num_distributed_optimizer_instances", 1, {1, 1 << 20});
  if (ranks % n != 0 || (scenario.model.moe.present() && p.edp() % n != 0))
    refuse(sections, scenario, ddp, "num_distributed_optimizer_instances",
           "optimizer-instances-do-not-divide",
           "must divide the data-parallel ranks, DP x CP = " + text(ranks) +
               (scenario.model.moe.present() ? " and expert DP = " + text(p.edp()) : "") +
               "; got " + text(n));
  else
    scenario.parallel.optimizer_instances = static_cast<int>(n);
  // distributed_data_parallel.py: slices are of the distributed optimizer.
  if (n > 1 && !scenario.data_parallel.distributed_optimizer &&
      scenario.data_parallel.fully_sharded != FullySharded::megatron)
    refuse(sections, scenario, ddp, "num_distributed_optimizer_instances",
           "optimizer-instances-need-distributed-optimizer", "needs use_distributed_optimizer");
  const int64_t slice = ranks / n;
  if (n > 1 && p.pp_before_dp && slice % p.cp != 0 && p.cp % slice != 0)
    not_simulated(sections, scenario, ddp, "num_distributed_optimizer_instances",
                  "slices that cut a context-parallel group unevenly are not simulated with "
                  "use_tp_pp_dp_mapping");
}

/// Fine-grained offload: transformer_config.py, __post_init__.
void validate_module_offload(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const std::string key = "offload_modules";
  const std::vector<std::string> modules = model.strings(key);
  ModuleOffload offload;
  offload.least_elements =
      static_cast<double>(model.integer("min_offloaded_tensor_size", 1 << 20, {0, INT32_MAX}));
  if (!model.boolean("fine_grained_activation_offloading", false)) return;
  if (modules.empty())
    refuse(sections, scenario, model, key, "offload-needs-modules", "must name a module or more");
  for (const std::string& module : modules) {
    const auto* row = std::find_if(offload_rows.begin(), offload_rows.end(),
                                   [&](const OffloadRow& r) { return r.name == module; });
    if (row == offload_rows.end())
      refuse(sections, scenario, model, key, "offload-module-unknown",
             "unknown module '" + printable(module) +
                 "'; valid: core_attn, attn_proj, expert_fc1, moe_act, attn_norm, qkv_linear, "
                 "mlp_norm, fused_group_mlp");
    else
      offload.*(row->flag) = true;
  }
  scenario.module_offload = offload;
  if (scenario.cluster.device.host_bandwidth <= BytesPerSecond{})
    refuse(sections, scenario, model, "fine_grained_activation_offloading",
           "offload-needs-host-link",
           "needs host_link in the description of the GPU " + scenario.cluster.device.name);
  if (offload.attn_proj && !offload.core_attn)
    refuse(sections, scenario, model, key, "offload-needs-core-attention",
           "attn_proj needs core_attn beside it: the input of the one is the output of the other");
  if (scenario.recompute_modules.moe &&
      (offload.moe_act || offload.expert_fc1 || offload.fused_group_mlp))
    refuse(sections, scenario, model, key, "offload-excludes-moe-recompute",
           "cannot offload inside a MoE layer that recompute_modules moe runs again");
  if (offload.fused_group_mlp && !scenario.moe_runtime.op_fuser)
    refuse(sections, scenario, model, key, "fused-offload-needs-op-fuser",
           "fused_group_mlp needs use_transformer_engine_op_fuser");
  if (offload.fused_group_mlp && (offload.expert_fc1 || offload.moe_act))
    refuse(sections, scenario, model, key, "fused-offload-excludes-parts",
           "fused_group_mlp holds expert_fc1 and moe_act: name it or them");
  if (scenario.moe_runtime.paged_stash &&
      (offload.expert_fc1 || offload.moe_act || offload.fused_group_mlp))
    refuse(sections, scenario, model, key, "paged-stash-excludes-offload",
           "must not hold expert_fc1, moe_act or fused_group_mlp: moe_paged_stash keeps those");
  if (model.boolean("cpu_offloading", false))
    refuse(sections, scenario, model, "fine_grained_activation_offloading", "offload-has-one-form",
           "cannot be combined with cpu_offloading");
  if (!engine_layers(model))
    refuse(sections, scenario, model, "fine_grained_activation_offloading",
           "offload-needs-transformer-engine", "needs transformer_impl transformer_engine");
  const std::string variable = "NVTE_CPU_OFFLOAD_V1";
  const std::string& engine = scenario.software.transformer_engine;
  if (!engine.empty() && !older(engine, 2, 10) && sections.env_vars.text_of(variable) != "1" &&
      sections.env_vars.text_of(variable) != "\"1\"")
    refuse(sections, scenario, sections.env_vars, variable, "offload-needs-first-interface",
           "must be 1 with fine-grained offload from Transformer Engine 2.10 on");
}

/// Delayed weight gradients: comm_overlap.py, transformer_config.py.
void validate_delayed_wgrad(const ScenarioSections& sections, Scenario& scenario) {
  if (scenario.effective["model.delay_wgrad_compute"] != "true") return;
  const Reader& model = sections.model;
  const std::string& engine = scenario.software.transformer_engine;
  const Reader& asked = sections.comm_overlap.present() ? sections.comm_overlap : model;
  const auto no = [&](const std::string& id, const std::string& reason) {
    refuse(sections, scenario, asked, "delay_wgrad_compute", id, reason);
  };
  if (older(engine, 2, 7) &&
      (scenario.overlap.overlap_grad_reduce || scenario.gradient_accumulation_fusion))
    no("delayed-wgrad-needs-newer-engine",
       "needs Transformer Engine 2.7 with overlap_grad_reduce or gradient_accumulation_fusion; "
       "got " +
           printable(engine));
  if (!scenario.graph_attention) return;
  if (older(engine, 2, 12))
    no("delayed-wgrad-in-graphs-needs-newer-engine",
       "needs Transformer Engine 2.12 with CUDA graphs around attention; got " + printable(engine));
  if (!scenario.gradient_accumulation_fusion)
    no("delayed-wgrad-in-graphs-needs-fusion",
       "needs gradient_accumulation_fusion with CUDA graphs around attention");
  if (scenario.model.qkv_bias || scenario.model.linear_bias)
    no("delayed-wgrad-in-graphs-excludes-bias",
       "cannot be combined with CUDA graphs around an attention that has biases");
}

void validate_offload(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const bool activations = model.boolean("cpu_offloading_activations", true);
  const int layers = model.integer("cpu_offloading_num_layers", 0, {0, 1 << 20});
  if (!model.boolean("cpu_offloading", false)) return;
  if (layers < 0 || (scenario.model.layers > 0 && layers >= scenario.model.layers))
    refuse(sections, scenario, model, "cpu_offloading_num_layers", "offload-layers-out-of-range",
           "must be less than the model's " + text(scenario.model.layers) + " layers; got " +
               text(layers));
  if (scenario.parallel.pp > 1)
    refuse(sections, scenario, model, "cpu_offloading", "offload-needs-one-stage",
           "needs pipeline_model_parallel_size 1; got " + text(scenario.parallel.pp));
  if (scenario.moe_runtime.paged_stash)
    refuse(sections, scenario, model, "cpu_offloading", "paged-stash-excludes-cpu-offload",
           "cannot be combined with moe_paged_stash");
  if (model.has("recompute_granularity"))
    refuse(sections, scenario, model, "cpu_offloading", "offload-excludes-recompute",
           "cannot be combined with recompute_granularity");
  if (scenario.cluster.device.host_bandwidth <= BytesPerSecond{})
    refuse(sections, scenario, model, "cpu_offloading", "offload-needs-host-link",
           "needs host_link in the description of the GPU " + scenario.cluster.device.name);
  // A check goes on behind what it refuses.
  if (activations && layers < scenario.model.layers && scenario.parallel.pp == 1)
    scenario.offloaded_layers = layers;
}

void validate_numerics(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const Reader& mixed = sections.mixed_precision;
  const bool fp8 = scenario.precision.fp8 != Fp8Recipe::none;
  if (!fp8 && (mixed.boolean("fp8_param", false) || mixed.boolean("fp8_param_gather", false)))
    refuse(sections, scenario, mixed, mixed.has("fp8_param") ? "fp8_param" : "fp8_param_gather",
           "fp8-parameters-need-fp8", "needs fp8 compute");
  if (scenario.precision.fp8 == Fp8Recipe::mxfp8 && scenario.precision.fp8_param_gather &&
      mixed.has("reuse_grad_buf_for_mxfp8_param_ag") &&
      !mixed.boolean("reuse_grad_buf_for_mxfp8_param_ag", true))
    refuse(sections, scenario, mixed, "reuse_grad_buf_for_mxfp8_param_ag",
           "mxfp8-gather-needs-grad-buffer",
           "must be true when MXFP8 parameters are gathered without FSDP");
  if (scenario.precision.fp8 == Fp8Recipe::mxfp8 && scenario.precision.fp8_param_gather &&
      scenario.overlap.param_gather_with_optimizer_step)
    refuse(sections, scenario, sections.ddp, "overlap_param_gather_with_optimizer_step",
           "mxfp8-excludes-gather-in-optimizer",
           "cannot be combined with MXFP8 parameters gathered through the gradient buffer");
  if (!model.boolean("deterministic_mode", false)) return;
  if (model.boolean("cross_entropy_loss_fusion", true))
    refuse(sections, scenario, model, "cross_entropy_loss_fusion",
           "deterministic-excludes-loss-fusion", "must be false in deterministic_mode");
  static const std::vector<std::string> algorithms{"Tree", "Ring", "CollnetDirect", "CollnetChain",
                                                   "^NVLS"};
  const std::string algorithm = sections.env_vars.string("NCCL_ALGO", "");
  if (std::find(algorithms.begin(), algorithms.end(), algorithm) == algorithms.end())
    refuse(sections, scenario, sections.env_vars, "NCCL_ALGO", "deterministic-needs-algorithm",
           "must be Tree, Ring, CollnetDirect, CollnetChain or ^NVLS in deterministic_mode, in "
           "these letters");
  // Megatron-Core extensions/transformer_engine.py, TEDotProductAttention.
  const std::string variable = "NVTE_ALLOW_NONDETERMINISTIC_ALGO";
  const std::string allowed = sections.env_vars.text_of(variable);
  if (engine_layers(model) && allowed != "0" && allowed != "\"0\"")
    refuse(sections, scenario, sections.env_vars, variable, "deterministic-needs-engine",
           "must be 0 in deterministic_mode: attention of Transformer Engine refuses it otherwise");
}

/// Evaluation runs on the ranks of the training (config.py).
void validate_evaluation(const ScenarioSections& sections, Scenario& scenario) {
  const std::string section = "validation";
  const nlohmann::json* part = sections.top.find(section);
  if (part == nullptr || !part->is_object() || sections.dialect != Dialect::bridge) return;
  const auto size = [&](const char* key, int64_t otherwise) {
    const auto found = part->find(key);
    return found != part->end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
  };
  const int64_t global = size("eval_global_batch_size", scenario.batch.global),
                micro = size("eval_micro_batch_size", scenario.batch.micro),
                dp = scenario.parallel.dp;
  if (micro < 1 || micro > INT32_MAX || global % (micro * dp) != 0)
    refuse(sections, scenario, sections.top, section, "eval-batch-not-divisible",
           "has an eval_global_batch_size of " + text(global) +
               ", which must be a multiple of eval_micro_batch_size x DP = " + text(micro) + " x " +
               text(dp));
}

/// Megatron-LM's own arguments.py, where it differs from Bridge.
void validate_megatron_lm(const ScenarioSections& sections, Scenario& scenario) {
  if (sections.dialect != Dialect::megatron_lm) return;
  const Parallelism& p = scenario.parallel;
  Overlap& overlap = scenario.overlap;
  if (p.vp && !overlap.overlap_p2p && p.pp <= 2)
    refuse(sections, scenario, sections.model, "virtual_pipeline_model_parallel_size",
           "mlm-interleaving-needs-three-stages",
           "without overlap_p2p_comm interleaving needs pipeline_model_parallel_size > 2; got " +
               text(p.pp));
  if (overlap.param_gather_with_optimizer_step && !p.vp)
    refuse(sections, scenario, sections.ddp, "overlap_param_gather_with_optimizer_step",
           "mlm-gather-in-optimizer-needs-vp", "needs virtual_pipeline_model_parallel_size");
  if (overlap.overlap_param_gather && !overlap.overlap_grad_reduce)
    refuse(sections, scenario, sections.ddp, "overlap_param_gather",
           "mlm-param-gather-needs-grad-overlap", "needs overlap_grad_reduce");
}

}  // namespace

void validate(const ScenarioSections& sections, Scenario& scenario) {
  resolve_context(sections, scenario);
  validate_finetuning(sections, scenario);
  validate_sharding(sections, scenario);
  check_fully_sharded(sections, scenario);
  validate_delayed_wgrad(sections, scenario);
  validate_offload(sections, scenario);
  validate_module_offload(sections, scenario);
  check_graphs(sections, scenario);
  validate_evaluation(sections, scenario);
  validate_numerics(sections, scenario);
  validate_megatron_lm(sections, scenario);
}

}  // namespace stepsim
