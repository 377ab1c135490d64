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

}  // namespace

void resolve_optimizer(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& optimizer = sections.optimizer;
  const bool aware = optimizer.boolean("use_precision_aware_optimizer", false);
  const double master = bytes_of(optimizer, "main_params_dtype"),
               first = bytes_of(optimizer, "exp_avg_dtype"),
               second = bytes_of(optimizer, "exp_avg_sq_dtype");
  const double gradient = bytes_of(optimizer, "main_grads_dtype");
  const bool remainders = optimizer.boolean("store_param_remainders", true);
  if (!aware) {
    if (master + first + second < 12)
      add_finding(scenario, optimizer, "use_precision_aware_optimizer",
                  "optimizer-types-need-precision-aware", Finding::Kind::silent, "false", "false",
                  "main_params_dtype, exp_avg_dtype and exp_avg_sq_dtype only hold with "
                  "use_precision_aware_optimizer; the states stay fp32");
    return;
  }
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
