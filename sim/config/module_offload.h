// Saved inputs of single modules that wait in host memory (Megatron-Core
// pipeline_parallel/fine_grained_activation_offload.py).
#pragma once

#include <array>
#include <string_view>

namespace stepsim {

/// offload_modules; none unless fine_grained_activation_offloading.
struct ModuleOffload {
  bool attn_norm = false, qkv_linear = false, core_attn = false, attn_proj = false,
       mlp_norm = false, expert_fc1 = false, moe_act = false, fused_group_mlp = false;
  double least_elements = 1 << 20;  ///< min_offloaded_tensor_size: smaller tensors stay
  bool any() const {
    return attn_norm || qkv_linear || core_attn || attn_proj || mlp_norm || expert_fc1 || moe_act ||
           fused_group_mlp;
  }
};

struct OffloadRow {
  std::string_view name;
  bool ModuleOffload::*flag;
};
inline constexpr std::array<OffloadRow, 8> offload_rows{{
    {"core_attn", &ModuleOffload::core_attn},
    {"attn_proj", &ModuleOffload::attn_proj},
    {"expert_fc1", &ModuleOffload::expert_fc1},
    {"moe_act", &ModuleOffload::moe_act},
    {"attn_norm", &ModuleOffload::attn_norm},
    {"qkv_linear", &ModuleOffload::qkv_linear},
    {"mlp_norm", &ModuleOffload::mlp_norm},
    {"fused_group_mlp", &ModuleOffload::fused_group_mlp},
}};

}  // namespace stepsim
