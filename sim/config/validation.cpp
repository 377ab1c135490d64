// Checks of Megatron-Bridge's ConfigContainer.validate and of Megatron-Core's configurations that
// concern settings beside the meshes (training/config.py, transformer_config.py,
// parallel_state.py).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using Kind = Finding::Kind;
std::string text(int64_t value) { return std::to_string(value); }

void validate_context(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const int cp = scenario.parallel.cp;
  constexpr Range any{1, 1 << 20};
  const nlohmann::json* sizes = model.find("hierarchical_context_parallel_sizes");
  if (sizes != nullptr) {
    int64_t product = 1;
    if (!sizes->is_array()) model.fail("hierarchical_context_parallel_sizes", "must be a list");
    for (const nlohmann::json& n : *sizes) {
      if (!n.is_number_integer() || n < any.low || n > any.high)
        model.fail("hierarchical_context_parallel_sizes", "must hold sizes from 1");
      product = std::min<int64_t>(product * n.get<int64_t>(), int64_t{1} << 40);
    }
    if (product != cp)
      refuse(sections, scenario, model, "hierarchical_context_parallel_sizes",
             "hierarchical-cp-product",
             "must multiply to context_parallel_size " + text(cp) + "; got " + text(product));
  }
  const std::vector<std::string> kinds = model.strings("cp_comm_type");
  static const std::vector<std::string> valid{"p2p", "all_gather", "a2a", "a2a+p2p"};
  for (const std::string& kind : kinds) {
    if (std::find(valid.begin(), valid.end(), kind) == valid.end())
      model.fail("cp_comm_type",
                 "unknown kind '" + printable(kind) + "'; valid: p2p, all_gather, a2a, a2a+p2p");
    if (kind == "a2a+p2p" && sizes == nullptr && cp > 1)
      refuse(sections, scenario, model, "cp_comm_type", "a2a-p2p-needs-hierarchy",
             "'a2a+p2p' needs hierarchical_context_parallel_sizes");
    if (kind != "p2p" && cp > 1)
      not_simulated(sections, scenario, model, "cp_comm_type",
                    "'" + kind + "' is not simulated in this release; valid: p2p");
  }
  const nlohmann::json* list = model.find("cp_comm_type");
  if (list != nullptr && list->is_array() && scenario.model.layers > 0 &&
      static_cast<int>(kinds.size()) != scenario.model.layers)
    refuse(sections, scenario, model, "cp_comm_type", "cp-kinds-not-per-layer",
           "a list must name one kind for each of " + text(scenario.model.layers) +
               " layers; it names " + text(static_cast<int64_t>(kinds.size())));
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
  bool fsdp = false;
  for (const Reader* section : {&sections.ddp, &sections.model})
    fsdp = fsdp || section->boolean("use_megatron_fsdp", false);
  if (!fsdp) return;
  if (scenario.device_max_connections == 1)
    refuse(sections, scenario, sections.env_vars, "CUDA_DEVICE_MAX_CONNECTIONS",
           "fsdp-needs-several-queues",
           "must not be 1 with Megatron-FSDP: its gathers would wait behind compute");
  if (!scenario.data_parallel.distributed_optimizer)
    add_finding(scenario, ddp, "use_distributed_optimizer", "fsdp-forces-distributed-optimizer",
                Kind::silent, "false", "true",
                "Megatron-FSDP shards the optimizer; Bridge switches the distributed optimizer on");
  if (scenario.data_parallel.average_in_collective)
    add_finding(scenario, ddp, "average_in_collective", "fsdp-clears-average-in-collective",
                Kind::silent, "true", "false",
                "Bridge switches average_in_collective off under Megatron-FSDP");
}

void validate_offload(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  if (!model.boolean("cpu_offloading", false)) return;
  const int layers = model.integer("cpu_offloading_num_layers", 0, {0, 1 << 20});
  if (layers < 0 || (scenario.model.layers > 0 && layers >= scenario.model.layers))
    refuse(sections, scenario, model, "cpu_offloading_num_layers", "offload-layers-out-of-range",
           "must be less than the model's " + text(scenario.model.layers) + " layers; got " +
               text(layers));
  if (scenario.parallel.pp > 1)
    refuse(sections, scenario, model, "cpu_offloading", "offload-needs-one-stage",
           "needs pipeline_model_parallel_size 1; got " + text(scenario.parallel.pp));
  if (model.has("recompute_granularity"))
    refuse(sections, scenario, model, "cpu_offloading", "offload-excludes-recompute",
           "cannot be combined with recompute_granularity");
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
  if (!sections.env_vars.has("NCCL_ALGO"))
    refuse(sections, scenario, sections.env_vars, "NCCL_ALGO", "deterministic-needs-algorithm",
           "must be set in deterministic_mode (Tree, Ring, CollnetDirect, CollnetChain or ^NVLS)");
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
  validate_context(sections, scenario);
  validate_sharding(sections, scenario);
  validate_offload(sections, scenario);
  validate_numerics(sections, scenario);
  validate_megatron_lm(sections, scenario);
}

}  // namespace stepsim
