// Bytes of optimizer state a parameter (megatron/core/optimizer/optimizer_config.py): fp32 master
// weight and two fp32 moments, or what the precision-aware optimizer stores instead.
#include <array>

#include "sim/config/resolve.h"

namespace stepsim {
namespace {

double bytes_of(const Reader& optimizer, const std::string& key) {
  static const std::array<std::string, 12> names{
      "fp32", "float32", "torch.float32", "bf16", "bfloat16", "torch.bfloat16",
      "fp16", "float16", "torch.float16", "fp8",  "uint8",    "torch.uint8"};
  const std::string name = optimizer.choice(key, "fp32", names);
  if (name.find("32") != std::string::npos) return 4;
  return name == "fp8" || name.ends_with("uint8") ? 1 : 2;
}

void resolve_host_optimizer(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& optimizer = sections.optimizer;
  // OptimizerConfig's default, and that of Megatron-LM's argument.
  const double all = sections.dialect == Dialect::megatron_lm ? 1 : 0;
  const double fraction = optimizer.number("optimizer_offload_fraction", all, 0, 1);
  const bool overlap = optimizer.boolean("overlap_cpu_optimizer_d2h_h2d", false);
  if (!optimizer.boolean("optimizer_cpu_offload", false)) return;
  const Device& device = scenario.cluster.device;
  if (scenario.data_parallel.fully_sharded != FullySharded::none)
    return not_simulated(sections, scenario, optimizer, "optimizer_cpu_offload",
                         "beside FSDP is not simulated in this release");
  if (!scenario.costs &&
      (device.host_bandwidth <= BytesPerSecond{} || device.host_adam <= BytesPerSecond{}))
    return refuse(sections, scenario, optimizer, "optimizer_cpu_offload",
                  "optimizer-offload-needs-host",
                  "needs host_link.bandwidth and host_link.adam_bandwidth in the description of "
                  "the GPU " +
                      device.name);
  if (fraction == 0)
    add_finding(scenario, optimizer, "optimizer_offload_fraction", "optimizer-offload-of-nothing",
                Finding::Kind::advice, "0", "0",
                "optimizer_cpu_offload with a fraction of 0 offloads nothing");
  scenario.host_optimizer.fraction = fraction;
  scenario.host_optimizer.overlap = overlap;
}

}  // namespace

void resolve_optimizer(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& optimizer = sections.optimizer;
  const bool aware = optimizer.boolean("use_precision_aware_optimizer", false);
  const double master = bytes_of(optimizer, "main_params_dtype"),
               first = bytes_of(optimizer, "exp_avg_dtype"),
               second = bytes_of(optimizer, "exp_avg_sq_dtype");
  const double gradient = bytes_of(optimizer, "main_grads_dtype");
  const bool remainders = optimizer.boolean("store_param_remainders", true);
  resolve_host_optimizer(sections, scenario);
  if (!aware) {
    if (master + first + second < 12)
      add_finding(scenario, optimizer, "use_precision_aware_optimizer",
                  "optimizer-types-need-precision-aware", Finding::Kind::silent, "false", "false",
                  "main_params_dtype, exp_avg_dtype and exp_avg_sq_dtype only hold with "
                  "use_precision_aware_optimizer; the states stay fp32");
    return;
  }
  scenario.host_optimizer.moment_bytes = first + second;
  DataParallel& dp = scenario.data_parallel;
  if (!dp.distributed_optimizer && dp.fully_sharded != FullySharded::megatron)
    refuse(sections, scenario, optimizer, "use_precision_aware_optimizer",
           "precision-aware-needs-distributed-optimizer", "needs the distributed optimizer");
  // The upper half of an fp32 master weight is the bf16 parameter itself: only the rest is stored.
  const bool halves = remainders && master == 4 && scenario.precision.parameters == Dtype::bf16 &&
                      scenario.precision.fp8 == Fp8Recipe::none;
  dp.optimizer_bytes = (halves ? 2 : master) + first + second;
  // The gradient is read, master weight and moments are read and written; with remainders the
  // 16-bit weight is the other half of the master.
  dp.adam_bytes = gradient + 2 * (master + first + second);
  dp.copies_gradients = false;
}

}  // namespace stepsim
