// Changes that only work together: TP 8 to 4 where the batch no longer divides, VP taken away and
// the overlap that needs it.
//
// A mixture of two good scenarios may be refused. Changes are merged into one player until every
// mixture of players that was tried is accepted: each time the two players that tell apart most of
// the refused mixtures, then fewest of the accepted ones, then those of the first keys. Mixtures
// are tried together with their complements, so A and B exchanged give the same players.
#pragma once

#include <functional>
#include <vector>

#include "sim/study/changes.h"

namespace stepsim {

/// Numbers of the changes that are made together, ascending; players by their first change.
using Players = std::vector<std::vector<size_t>>;

/// Whether each of these mixtures is accepted.
using Accepts = std::function<std::vector<bool>(const std::vector<Subset>&)>;

/// The changes that the players in `mask` make, as a Subset of `changes`.
Subset made_by(const Players& players, size_t changes, const std::vector<bool>& in);

/// Every mixture is tried where there are at most `most_enumerated` players; else each player
/// alone, all without it, and more around those that are refused.
Players coalitions(size_t changes, size_t most_enumerated, const Accepts& accepts);

/// The players with two merged so that fewest of `refused` mixtures can be told apart.
Players merged(const Players& players, const std::vector<Subset>& refused,
               const std::vector<Subset>& accepted);

}  // namespace stepsim
