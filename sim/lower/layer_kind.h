// What tells one decoder layer's templates from another's.
#pragma once

#include <compare>

#include "sim/config/scenario.h"

namespace stepsim {

struct LayerKind {
  bool fp8 = false;     ///< its GEMMs are quantised
  bool moe = false;     ///< experts in place of the MLP
  bool window = false;  ///< its attention sees the last tokens only
  ContextKind context = ContextKind::p2p;
  auto operator<=>(const LayerKind&) const = default;
};
LayerKind layer_kind(const Scenario& scenario, int layer);

}  // namespace stepsim
