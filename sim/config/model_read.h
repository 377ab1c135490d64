// Reading an architecture: a Hugging Face config.json as it is, then Bridge's own keys laid over
// it.
#pragma once

#include "sim/config/model.h"
#include "sim/config/reader.h"

namespace stepsim {

/// Bounds that keep every product of sizes inside 64 bits.
inline constexpr Range layers_range{1, 8192}, hidden_range{1, 1 << 20}, ffn_range{1, 1 << 24},
    heads_range{1, 1 << 14}, head_dim_range{1, 4096}, vocab_range{1, 1 << 28},
    divisor_range{1, 1 << 20}, positions_range{0, int64_t{1} << 32}, mtp_range{0, 64};

/// A Hugging Face config (a foreign format: keys that do not matter are ignored).
Model read_architecture(const Reader& config, const std::string& name);
/// Bridge's keys of the `model` section over `model`; `from_scratch`: no hf_config, so sizes are
/// required.
void override_architecture(Model& model, const Reader& section, bool from_scratch);

}  // namespace stepsim
