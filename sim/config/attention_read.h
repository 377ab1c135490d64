// Reading what attention has beyond heads: latent projections, sliding windows, sinks; and
// multi-token prediction. From a Hugging Face config.json, and Bridge's keys laid over it.
#pragma once

#include "sim/config/model_families.h"
#include "sim/config/reader.h"

namespace stepsim {

/// Sets model.mla and the head sizes that follow from it; false when attention is ordinary.
/// Refuses latent attention in a family without.
bool read_latent_attention(Model& model, const Reader& config, const FamilyRow& family);
void override_latent_attention(Model& model, const Reader& section);

void read_window(Model& model, const Reader& config, const FamilyRow& family);
/// `layers_before`: the model's depth before the section changed it.
void override_window(Model& model, const Reader& section, int layers_before);

}  // namespace stepsim
