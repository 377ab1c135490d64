// Megatron-Bridge's way to write Python objects into YAML (megatron/training/config/yaml_utils.py)
// and what a resolved run_config.yaml means: its values are those after
// runtime_config_update() (src/megatron/bridge/training/config.py), so nothing is applied twice.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace stepsim {

/// Types and functions become their dotted name, enums their value (their name when the value is a
/// number), at any depth.
void plain_bridge_values(nlohmann::json& root);
/// Lifts `model.transformer`; in a resolved ConfigContainer keeps comm_overlap aside as
/// `_comm_overlap_requested`, all but its tp_comm_overlap_cfg, which goes to `model` when missing
/// there; drops recipe fields whose format is off.
void settle_run_config(nlohmann::json& root);

}  // namespace stepsim
