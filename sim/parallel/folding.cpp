#include "sim/parallel/folding.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>

namespace stepsim {

namespace {

constexpr std::array group_kinds{GroupKind::tp, GroupKind::cp, GroupKind::dp_cp, GroupKind::pp,
                                 GroupKind::embedding};

/// Every block of `block` consecutive ranks lies alike in its units.
bool aligned(int block, int unit, int world) {
  return unit >= world || unit % block == 0 || block % unit == 0;
}

bool regular(const Parallelism& p, std::span<const int> units) {
  // The stage, or with the pipeline before data parallelism the whole pipeline, is the third block.
  const int world = p.world(), stage = p.pp_before_dp ? p.tp * p.cp * p.pp : world / p.pp;
  return std::all_of(units.begin(), units.end(), [&](int unit) {
    return aligned(p.tp, unit, world) && aligned(p.tp * p.cp, unit, world) &&
           aligned(stage, unit, world);
  });
}

/// Renumbers equal keys 0, 1, ... in order of first appearance.
template <class Key>
int number(const std::vector<Key>& keys, std::vector<int>& colours) {
  std::map<Key, int> ids;
  for (size_t r = 0; r < keys.size(); ++r)
    colours[r] = ids.try_emplace(keys[r], static_cast<int>(ids.size())).first->second;
  return static_cast<int>(ids.size());
}

/// Calls `visit` with the ranks of every group of that kind, each group once.
template <class Visit>
void for_each_group(const Mesh& mesh, GroupKind kind, Visit visit) {
  if (mesh.group_size(kind) < 2) return;
  for (int rank = 0; rank < mesh.world(); ++rank)
    if (mesh.leads(kind, rank)) visit(mesh.group(kind, rank));
}

std::vector<int> refine(const Mesh& mesh, const Surroundings& surroundings) {
  const auto world = static_cast<size_t>(mesh.world());
  std::vector<std::vector<double>> keys(world);
  std::vector<int> colours(world);
  for (size_t r = 0; r < world; ++r) keys[r].push_back(mesh.coordinates(static_cast<int>(r)).pp);
  const auto append = [&](int rank, const std::vector<double>& key) {
    std::vector<double>& to = keys[static_cast<size_t>(rank)];
    to.push_back(static_cast<double>(key.size()));
    to.insert(to.end(), key.begin(), key.end());
  };
  for (GroupKind kind : group_kinds)
    for_each_group(mesh, kind, [&](const std::vector<int>& ranks) {
      if (kind != GroupKind::pp) {
        const std::vector<double> key = surroundings.key(ranks);
        for (int member : ranks) append(member, key);
        return;
      }
      // Messages go to the neighbours only; the last stage's next is the first.
      const size_t size = ranks.size();
      for (size_t i = 0; i < size; ++i)
        for (size_t peer : {(i + 1) % size, (i + size - 1) % size}) {
          const int pair[] = {ranks[i], ranks[peer]};
          append(pair[0], surroundings.key(pair));
        }
    });
  int count = number(keys, colours);
  std::vector<std::vector<int>> seen(world);
  for (int before = 0; count != before;) {
    before = count;
    for (size_t r = 0; r < world; ++r) seen[r].assign(1, colours[r]);
    for (GroupKind kind : group_kinds) {
      std::map<std::vector<int>, int> makeups;  // of whole groups: each is worked out once
      for_each_group(mesh, kind, [&](const std::vector<int>& ranks) {
        std::vector<int> makeup;
        for (int m : ranks) makeup.push_back(colours[static_cast<size_t>(m)]);
        if (kind != GroupKind::pp) std::sort(makeup.begin(), makeup.end());
        const int id = makeups.try_emplace(makeup, static_cast<int>(makeups.size())).first->second;
        for (int m : ranks) seen[static_cast<size_t>(m)].push_back(id);
      });
    }
    count = number(seen, colours);
  }
  return colours;
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
  } else if (surroundings.in_order && regular(parallel, surroundings.units)) {
    folding.regular = true;
    for (int p = 0; p < parallel.pp; ++p) {
      folding.ranks.push_back(p * folding.stage_stride);
      folding.represents.push_back(mesh.world() / parallel.pp);
    }
    return folding;
  } else {
    folding.device_of_rank = refine(mesh, surroundings);
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
