// What is in effect in a scenario, after every gate, as words that can be compared.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/config/scenario.h"

namespace stepsim {

/// A setting or a size that came out differently. JSON text; "": does not apply there.
struct EffectiveChange {
  std::string key, from, to;
};

/// Bridge's dotted keys after resolution, and what follows from them: mesh, batch, model, machine.
std::map<std::string, std::string> effective_fields(const Scenario& scenario);

/// In order of their keys.
std::vector<EffectiveChange> effective_changes(const Scenario& a, const Scenario& b);

}  // namespace stepsim
