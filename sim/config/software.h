// What a job is launched with: library versions and the environment that decides how kernels share.
#pragma once

#include <string>

namespace stepsim {

/// Launch-time environment that decides how kernels share a device.
struct LaunchEnv {
  int max_connections = 8;  ///< CUDA_DEVICE_MAX_CONNECTIONS: launch queues; 8 is CUDA's own default
  bool max_connections_set = false;
  /// NVTE_FWD_LAYERNORM_SM_MARGIN, NVTE_BWD_...: SMs that norm kernels leave free.
  int norm_margin_forward = 0, norm_margin_backward = 0;
};

struct Software {
  std::string release, nccl, transformer_engine, cudnn;
};

}  // namespace stepsim
