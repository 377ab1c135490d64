#include "sim/parallel/folding.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <unordered_map>

namespace stepsim {

namespace {

constexpr std::array all_kinds{GroupKind::tp,        GroupKind::cp,        GroupKind::cp_inner,
                               GroupKind::cp_outer,  GroupKind::dp_cp,     GroupKind::pp,
                               GroupKind::embedding, GroupKind::dp_inner,  GroupKind::dp_outer,
                               GroupKind::ep,        GroupKind::etp,       GroupKind::edp,
                               GroupKind::edp_inner, GroupKind::edp_outer, GroupKind::etp_ep};
constexpr size_t expert_kinds = 6;

/// The groups that meet: those of the expert mesh only where there are experts.
std::span<const GroupKind> group_kinds(bool experts) {
  return std::span(all_kinds).first(experts ? all_kinds.size() : all_kinds.size() - expert_kinds);
}

/// Every block of `block` consecutive ranks lies alike in its units.
bool aligned(int block, int unit, int world) {
  return unit >= world || unit % block == 0 || block % unit == 0;
}

bool regular(const Parallelism& p, std::span<const int> units) {
  // The stage, or with the pipeline before data parallelism the whole pipeline, is the third block.
  const int world = p.world(), stage = p.pp_before_dp ? p.tp * p.cp * p.pp : world / p.pp;
  const int slices = p.optimizer_instances;
  if (slices > 1 && p.pp_before_dp) return false;
  return std::all_of(units.begin(), units.end(), [&](int unit) {
    return aligned(p.tp, unit, world) && aligned(p.tp * p.cp_inner, unit, world) &&
           aligned(p.tp * p.cp, unit, world) && aligned(stage, unit, world) &&
           aligned(p.tp * (p.cp * p.dp / slices), unit, world) &&
           (!p.experts || (aligned(p.etp, unit, world) && aligned(p.etp * p.ep, unit, world) &&
                           aligned(p.etp * p.ep * (p.edp() / slices), unit, world)));
  });
}

/// Classes of ranks, numbered 0, 1, ... in order of first appearance.
struct Classes {
  std::vector<int> of_rank;
  int count = 1;

  /// Parts ranks of one class whose `marks` differ.
  void split(const std::vector<int>& marks) {
    std::unordered_map<uint64_t, int> ids;
    for (size_t r = 0; r < of_rank.size(); ++r) {
      const uint64_t key =
          uint64_t{static_cast<uint32_t>(of_rank[r])} << 32 | static_cast<uint32_t>(marks[r]);
      of_rank[r] = ids.try_emplace(key, static_cast<int>(ids.size())).first->second;
    }
    count = static_cast<int>(ids.size());
  }
};

/// The number of a key, the same for equal ones.
template <class Key>
struct Numbers {
  std::map<Key, int> known;
  int operator()(const Key& key) {
    return known.try_emplace(key, static_cast<int>(known.size())).first->second;
  }
};

/// Calls `visit` with the ranks of every group of that kind, each group once.
template <class Visit>
void for_each_group(const Mesh& mesh, GroupKind kind, Visit visit) {
  if (mesh.group_size(kind) < 2) return;
  for (int rank = 0; rank < mesh.world(); ++rank)
    if (mesh.leads(kind, rank)) visit(mesh.group(kind, rank));
}

/// Parts ranks by their stage and by what their groups' costs depend on.
void split_by_costs(const Mesh& mesh, bool experts, const Surroundings& surroundings,
                    Classes& classes) {
  const size_t world = classes.of_rank.size();
  std::vector<int> marks(world);
  for (size_t r = 0; r < world; ++r) marks[r] = mesh.coordinates(static_cast<int>(r)).pp;
  classes.split(marks);
  if (!surroundings.marks.empty()) classes.split(surroundings.marks);
  if (!surroundings.key) return;  // nothing depends on where groups lie
  Numbers<std::vector<double>> keys;
  std::unordered_map<int, int> pairs;  // by surroundings.same_pair
  const auto pair_key = [&](int from, int to) {
    const int pair[] = {from, to};
    if (!surroundings.same_pair) return keys(surroundings.key(pair));
    const auto [found, added] = pairs.try_emplace(surroundings.same_pair(from, to), 0);
    if (added) found->second = keys(surroundings.key(pair));
    return found->second;
  };
  for (GroupKind kind : group_kinds(experts)) {
    if (mesh.group_size(kind) < 2) continue;
    std::vector<int> before(world, -1);  // of a pipeline: the other neighbour
    marks.assign(world, -1);
    for_each_group(mesh, kind, [&](const std::vector<int>& ranks) {
      if (kind != GroupKind::pp) {
        const int key = keys(surroundings.key(ranks));
        for (int member : ranks) marks[static_cast<size_t>(member)] = key;
        return;
      }
      // Messages go to the neighbours only; the last stage's next is the first.
      const size_t size = ranks.size();
      for (size_t i = 0; i < size; ++i) {
        const auto rank = static_cast<size_t>(ranks[i]);
        marks[rank] = pair_key(ranks[i], ranks[(i + 1) % size]);
        before[rank] = pair_key(ranks[i], ranks[(i + size - 1) % size]);
      }
    });
    classes.split(marks);
    if (kind == GroupKind::pp) classes.split(before);
  }
}

/// Parts ranks until all of a class see the same classes in each of their groups.
std::vector<int> refine(const Mesh& mesh, bool experts, const Surroundings& surroundings) {
  Classes classes{std::vector<int>(static_cast<size_t>(mesh.world()), 0)};
  split_by_costs(mesh, experts, surroundings, classes);
  std::vector<int> marks(classes.of_rank.size()), makeup;
  for (int before = 0; classes.count != before;) {
    before = classes.count;
    for (GroupKind kind : group_kinds(experts)) {
      if (mesh.group_size(kind) < 2) continue;
      Numbers<std::vector<int>> makeups;  // of whole groups: each is worked out once
      marks.assign(marks.size(), -1);
      for_each_group(mesh, kind, [&](const std::vector<int>& ranks) {
        makeup.clear();
        for (int m : ranks) makeup.push_back(classes.of_rank[static_cast<size_t>(m)]);
        if (kind != GroupKind::pp) std::sort(makeup.begin(), makeup.end());
        const int id = makeups(makeup);
        for (int m : ranks) marks[static_cast<size_t>(m)] = id;
      });
      classes.split(marks);
    }
  }
  return classes.of_rank;
}

}  // namespace

Folding fold(const Mesh& mesh, const Parallelism& parallel, const Surroundings& surroundings,
             bool unfold) {
  Folding folding;
  folding.stage_stride = mesh.stage_stride();
  folding.stages = parallel.pp;
  if (unfold || !surroundings.alike) {
    folding.device_of_rank.resize(static_cast<size_t>(mesh.world()));
    std::iota(folding.device_of_rank.begin(), folding.device_of_rank.end(), 0);
  } else if (surroundings.marks.empty() && surroundings.in_order &&
             regular(parallel, surroundings.units)) {
    folding.regular = true;
    for (int p = 0; p < parallel.pp; ++p) {
      folding.ranks.push_back(p * folding.stage_stride);
      folding.represents.push_back(mesh.world() / parallel.pp);
    }
    return folding;
  } else {
    folding.device_of_rank = refine(mesh, parallel.experts, surroundings);
  }
  for (size_t r = 0; r < folding.device_of_rank.size(); ++r) {
    const auto device = static_cast<size_t>(folding.device_of_rank[r]);
    if (device == folding.ranks.size()) {
      folding.ranks.push_back(static_cast<int>(r));
      folding.represents.push_back(0);
    }
    ++folding.represents[device];
  }
  return folding;
}

}  // namespace stepsim
