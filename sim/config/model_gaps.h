// What a model has and this release does not simulate: refused where it is most of the work, listed
// as not modelled where it is a correction.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/model.h"
#include "sim/config/reader.h"

namespace stepsim {

/// One such thing. `key`: what it is called in the report's `not_modelled`, under `model.`.
struct GapRow {
  std::string_view phrase, key;
  bool refused;
  bool (*has)(const Model&);
};

/// Sets model.not_simulated, in the order of the table.
void record_gaps(Model& model);
/// Does a step of this model run; false when refuse_unsimulated_model would refuse it.
bool simulates(const Model& model);
/// Refuses what a step of this release cannot hold; points at the key of `section` that asks for
/// it, else at hf_config. Only for commands that simulate.
void refuse_unsimulated_model(const Reader& section, const Model& model);
/// Dotted keys of what is left out of a step and not refused.
std::vector<std::string> unmodelled_keys(const Model& model);

}  // namespace stepsim
