// Reading experts: from a Hugging Face config.json, and Bridge's moe_* keys laid over it.
#pragma once

#include "sim/config/model_families.h"
#include "sim/config/reader.h"

namespace stepsim {

inline constexpr Range experts_range{1, 1 << 14}, no_or_experts_range{0, 1 << 14};

/// Sets model.moe; needs the sizes of the dense part. Refuses experts in a family without.
void read_experts(Model& model, const Reader& config, const FamilyRow& family);
/// Bridge's `model` section carries moe_* keys of dense models too: without experts they mean
/// nothing. `layers_before`: the model's depth before the section changed it.
void override_experts(Model& model, const Reader& section, int layers_before);

}  // namespace stepsim
