#include "sim/parallel/folding.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

namespace stepsim {

namespace {

constexpr std::array group_kinds{GroupKind::tp, GroupKind::cp, GroupKind::dp_cp, GroupKind::pp,
                                 GroupKind::embedding};

/// Every block of `block` consecutive ranks lies alike in its domains.
bool aligned(int block, int domain, int world) {
  return domain >= world || domain % block == 0 || block % domain == 0;
}

bool regular(const Parallelism& p, int domain) {
  const int world = p.world(), stage = world / p.pp;
  return aligned(p.tp, domain, world) && aligned(p.tp * p.cp, domain, world) &&
         aligned(stage, domain, world) && (p.pp == 1 || domain >= world || stage % domain == 0);
}

/// Domain pattern of a group seen from one member: how many members share its domain, and all
/// domain counts.
std::vector<int> pattern(const std::vector<int>& ranks, int rank, int domain) {
  std::map<int, int> members;
  for (int r : ranks) ++members[r / domain];
  std::vector<int> counts;
  for (const auto& [d, n] : members) counts.push_back(n);
  std::sort(counts.begin(), counts.end());
  counts.push_back(members[rank / domain]);
  return counts;
}

/// Renumbers equal keys 0, 1, ... in order of first appearance.
template <class Key>
int number(const std::vector<Key>& keys, std::vector<int>& colours) {
  std::map<Key, int> ids;
  for (size_t r = 0; r < keys.size(); ++r)
    colours[r] = ids.try_emplace(keys[r], static_cast<int>(ids.size())).first->second;
  return static_cast<int>(ids.size());
}

std::vector<int> refine(const Mesh& mesh, int domain) {
  const auto world = static_cast<size_t>(mesh.world());
  std::vector<int> colours(world);
  std::vector<std::vector<int>> keys(world);
  for (size_t r = 0; r < world; ++r) {
    const int rank = static_cast<int>(r);
    keys[r].push_back(mesh.coordinates(rank).pp);
    for (GroupKind kind : group_kinds) {
      const std::vector<int> p = pattern(mesh.group(kind, rank), rank, domain);
      keys[r].insert(keys[r].end(), p.begin(), p.end());
      keys[r].push_back(-1);
    }
    // Which neighbours of the pipeline are reached over NVLink.
    for (int peer : mesh.group(GroupKind::pp, rank))
      keys[r].push_back(peer / domain == rank / domain);
  }
  int count = number(keys, colours);
  for (int before = 0; count != before;) {
    before = count;
    for (size_t r = 0; r < world; ++r) {
      keys[r].assign(1, colours[r]);
      for (GroupKind kind : group_kinds) {
        std::vector<int> members;
        for (int m : mesh.group(kind, static_cast<int>(r)))
          members.push_back(colours[static_cast<size_t>(m)]);
        if (kind != GroupKind::pp) std::sort(members.begin(), members.end());
        keys[r].insert(keys[r].end(), members.begin(), members.end());
        keys[r].push_back(-1);
      }
    }
    count = number(keys, colours);
  }
  return colours;
}

}  // namespace

Folding fold(const Mesh& mesh, const Parallelism& parallel, int domain, bool unfold) {
  Folding folding;
  folding.ranks_per_stage = mesh.world() / parallel.pp;
  if (unfold) {
    folding.device_of_rank.resize(static_cast<size_t>(mesh.world()));
    std::iota(folding.device_of_rank.begin(), folding.device_of_rank.end(), 0);
  } else if (regular(parallel, domain)) {
    folding.regular = true;
    for (int p = 0; p < parallel.pp; ++p) {
      folding.ranks.push_back(p * folding.ranks_per_stage);
      folding.represents.push_back(folding.ranks_per_stage);
    }
    return folding;
  } else {
    folding.device_of_rank = refine(mesh, domain);
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
