// What tells one decoder layer's templates from another's.
#pragma once

#include <compare>
#include <span>
#include <vector>

#include "sim/config/scenario.h"

namespace stepsim {

struct LayerKind {
  bool fp8 = false;     ///< its GEMMs are quantised
  bool window = false;  ///< its attention sees the last tokens only
  ContextKind context = ContextKind::p2p;
  Mixer mixer = Mixer::attention;
  FeedForward feed_forward = FeedForward::dense;

  bool moe() const { return feed_forward == FeedForward::experts; }
  auto operator<=>(const LayerKind&) const = default;
};
LayerKind layer_kind(const Scenario& scenario, int layer);
using LayerKinds = std::span<const LayerKind>;
/// Layers of one multi-token prediction depth.
std::vector<LayerKind> prediction_kinds(const Scenario& scenario);

}  // namespace stepsim
