// What a launch script says beside the training arguments: how many processes torchrun starts, and
// the environment they see.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "sim/config/import_shell.h"

namespace stepsim {

/// The command that trains and where its own arguments begin; nullptr: none runs pretrain_*.py.
struct TrainingCommand {
  const ShellCommand* command = nullptr;
  size_t arguments = 0;
  bool has_arguments = false;  ///< at least one flag
};
TrainingCommand training_command(const ShellScript& script);

/// {gpus_per_node, nodes, gpus}, each only when it is a plain number: torchrun's flags, else the
/// variables scripts use by custom (GPUS_PER_NODE, NNODES, WORLD_SIZE). `launcher`: words in front
/// of the training script.
nlohmann::json launch_sizes(const ShellScript& script, std::span<const ShellWord> launcher);
/// Exported CUDA_DEVICE_MAX_CONNECTIONS, NCCL_*, NVTE_* and TORCH_NCCL_*; those in front of the
/// command win.
nlohmann::json environment(const ShellScript& script, const TrainingCommand& training);

}  // namespace stepsim
