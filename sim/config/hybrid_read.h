// Reading the layers of hybrid decoders.
#pragma once

#include "sim/config/model.h"
#include "sim/config/model_families.h"
#include "sim/config/reader.h"

namespace stepsim {

/// After the experts are read: which layer holds what. Refuses such keys of other families.
void read_hybrid(Model& model, const Reader& config, const FamilyRow& family);
/// Another depth cuts the pattern, or repeats it.
void resize_hybrid(Model& model);

}  // namespace stepsim
