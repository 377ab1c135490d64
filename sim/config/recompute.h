// Whose forward runs again in backward (Megatron-Core transformer/transformer_config.py,
// recompute_granularity).
#pragma once

namespace stepsim {

/// recompute_modules, as asked for; none unless recompute is selective.
struct RecomputeModules {
  bool core_attn = false, layernorm = false, mlp = false, moe = false, moe_act = false,
       shared_experts = false, mla_up_proj = false, gdn_norm_out = false;
};
/// Whose forward runs again: the modules of RecomputeModules, if any, or that of whole layers.
enum class Recompute { modules, full_uniform, full_block };

}  // namespace stepsim
