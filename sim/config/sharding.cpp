// What data parallelism shards: Megatron-FSDP and PyTorch's FSDP2
// (megatron/core/distributed/distributed_data_parallel_config.py).
#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "sim/config/resolve.h"

namespace stepsim {

namespace {

bool is_on(std::initializer_list<const Reader*> readers, const std::string& key) {
  bool on = false;
  for (const Reader* reader : readers) on |= reader->boolean(key, false);
  return on;
}

ShardStrategy strategy_of(const Reader& ddp) {
  static const std::array<std::string, 4> names{"no_shard", "optim", "optim_grads",
                                                "optim_grads_params"};
  const std::string name = ddp.choice("data_parallel_sharding_strategy", names[0], names);
  return static_cast<ShardStrategy>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

void resolve_fully_sharded(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& ddp = sections.ddp;
  DataParallel& dp = scenario.data_parallel;
  const ShardStrategy strategy = strategy_of(ddp);
  static const std::array<std::string, 2> outer{"no_shard", "optim"};
  const bool outer_optimizer =
      ddp.choice("outer_dp_sharding_strategy", outer[0], outer) == outer[1];
  const bool registered = ddp.boolean("nccl_ub", false);
  const bool two = ddp.boolean("fsdp_double_buffer", false);
  const bool reshard = ddp.boolean("torch_fsdp2_reshard_after_forward", true);
  const bool megatron = is_on({&ddp, &sections.model, &sections.dist}, "use_megatron_fsdp") ||
                        ddp.boolean("use_custom_fsdp", false);
  dp.registered_buffers = registered;
  dp.fp32_accumulation = ddp.boolean("reduce_scatter_with_fp32_accumulation", false);
  if (is_on({&ddp, &sections.dist}, "use_torch_fsdp2")) {
    dp.fully_sharded = FullySharded::torch;
    dp.strategy = ShardStrategy::optim_grads_params;
    dp.reshard_after_forward = reshard;
  }
  if (!megatron) return;
  dp.fully_sharded = FullySharded::megatron;
  dp.strategy = strategy;
  dp.outer_optimizer = outer_optimizer;
  // distributed_data_parallel_config.py: registered buffers are the persistent ones.
  dp.double_buffer = two || registered;
}

}  // namespace stepsim
