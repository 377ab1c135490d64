// The two rank meshes over the same ranks (Megatron-Core parallel_state, order tp-cp-ep-dp-pp):
//   dense:  rank = tp + TP*(cp + CP*(dp + DP*pp))      DP  = world / (TP*CP*PP)
//   expert: rank = etp + ETP*(ep + EP*(edp + EDP*pp))  EDP = world / (ETP*EP*PP)
// With dist.use_tp_pp_dp_mapping pp comes before dp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/config/scenario.h"

namespace stepsim {

/// Dense coordinates of a rank.
struct Coordinates {
  int tp = 0, cp = 0, dp = 0, pp = 0;
  auto operator<=>(const Coordinates&) const = default;
};

/// Of dp and edp, `inner`: the slice of the group that shares one copy of what is sharded; `outer`:
/// the ranks of one place in all slices (num_distributed_optimizer_instances of them).
enum class GroupKind {
  tp,
  cp,
  dp,
  dp_cp,
  pp,
  embedding,
  ep,
  etp,
  edp,
  etp_ep,
  cp_inner,
  cp_outer,
  dp_inner,
  dp_outer,
  edp_inner,
  edp_outer
};
inline constexpr int group_kind_count = 16;
/// Groups of the expert mesh.
constexpr bool is_expert(GroupKind kind) {
  return kind == GroupKind::ep || kind == GroupKind::etp || kind == GroupKind::edp ||
         kind == GroupKind::etp_ep || kind == GroupKind::edp_inner || kind == GroupKind::edp_outer;
}
const char* name(GroupKind kind);

/// Sizes and groups; ranks are numbered in launcher order.
class Mesh {
 public:
  explicit Mesh(const Parallelism& p) : p_(p) {}
  int world() const { return p_.world(); }
  int rank(Coordinates c) const;
  Coordinates coordinates(int rank) const;
  /// Ranks of `rank`'s group of that kind, ascending. Between the two ends of the pipeline a rank
  /// names an embedding group without being in it.
  std::vector<int> group(GroupKind kind, int rank) const;
  int group_size(GroupKind kind) const;
  /// `rank` is the first of its group: visiting the leaders visits every group once.
  bool leads(GroupKind kind, int rank) const;
  /// Distance in ranks between the members of one pipeline group.
  int stage_stride() const;
  /// PP * max(TP*CP, EP*ETP): the two meshes share the ranks of a stage.
  int64_t min_gpus() const {
    return p_.pp * std::max(int64_t{p_.tp} * p_.cp, int64_t{p_.ep} * p_.etp);
  }

 private:
  /// `count` ranks at a stride; a group varies one or two axes, the first fastest.
  struct Axis {
    int count = 1, stride = 1;
    int digit(int rank) const { return rank / stride % count; }
  };
  std::array<Axis, 2> axes(GroupKind kind) const;

  Parallelism p_;
};

/// Groups of one kind over the NVLink domains.
struct Straddling {
  GroupKind kind;
  int groups = 0;              ///< how many straddle
  int domains = 0;             ///< domains spanned by the widest
  int total = 0;               ///< groups of that kind
  std::vector<int> members{};  ///< members per domain of the first that straddles
};
/// Kinds of which some group straddles; `nvlink_domain`: consecutive ranks that share NVLink.
std::vector<Straddling> straddling(const Mesh& mesh, int nvlink_domain);

}  // namespace stepsim
