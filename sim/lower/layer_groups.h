// Where the groups of one device sit.
#pragma once

#include "sim/network/collective.h"

namespace stepsim {

struct LayerGroups {
  GroupPlacement tp, cp;
  GroupPlacement ep{}, etp{}, etp_ep{};   ///< of one member without experts
  GroupPlacement cp_inner{}, cp_outer{};  ///< of one member unless a2a+p2p has both
  double expert_load = 1;  ///< tokens that this rank's experts get, over the mean of all ranks
};

}  // namespace stepsim
