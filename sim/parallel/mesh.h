// The dense rank mesh: rank = tp + TP*(cp + CP*(dp + DP*pp)) (Megatron-Core parallel_state, order
// tp-cp-ep-dp-pp).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/config/scenario.h"

namespace stepsim {

/// Coordinates of a rank.
struct Coordinates {
  int tp = 0, cp = 0, dp = 0, pp = 0;
  auto operator<=>(const Coordinates&) const = default;
};

enum class GroupKind { tp, cp, dp, dp_cp, pp, embedding };

/// Sizes and groups; ranks are GPU numbers in launcher order.
class Mesh {
 public:
  explicit Mesh(const Parallelism& p) : p_(p) {}
  int world() const { return p_.world(); }
  int rank(Coordinates c) const { return c.tp + p_.tp * (c.cp + p_.cp * (c.dp + p_.dp * c.pp)); }
  Coordinates coordinates(int rank) const;
  /// Ranks of `rank`'s group of that kind, ascending.
  std::vector<int> group(GroupKind kind, int rank) const;
  int group_size(GroupKind kind) const;
  /// A group is `group_size` ranks at a stride; `position` is where a rank with these coordinates
  /// stands in its own.
  struct Line {
    int stride = 1, position = 0;
  };
  Line line(GroupKind kind, Coordinates c) const;
  /// PP * max(TP*CP, EP*ETP) with EP = ETP = 1 (dense).
  int min_gpus() const { return p_.pp * p_.tp * p_.cp; }

 private:
  Parallelism p_;
};

/// Groups of one kind whose members do not share an NVLink domain.
struct Straddling {
  GroupKind kind;
  int groups = 0;   ///< how many straddle
  int domains = 0;  ///< domains spanned by the widest
};
std::vector<Straddling> straddling(const Mesh& mesh, int nvlink_domain);
const char* name(GroupKind kind);

}  // namespace stepsim
