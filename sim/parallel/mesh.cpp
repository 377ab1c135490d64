#include "sim/parallel/mesh.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace stepsim {

namespace {
constexpr std::array all_kinds{GroupKind::tp, GroupKind::cp, GroupKind::dp,
                               GroupKind::dp_cp, GroupKind::pp, GroupKind::embedding};
}

const char* name(GroupKind kind) {
  constexpr std::array names{"tp", "cp", "dp", "dp_cp", "pp", "embedding"};
  return names[static_cast<size_t>(kind)];
}

Coordinates Mesh::coordinates(int rank) const {
  assert(rank >= 0 && rank < world());
  Coordinates c;
  c.tp = rank % p_.tp;
  rank /= p_.tp;
  c.cp = rank % p_.cp;
  rank /= p_.cp;
  c.dp = rank % p_.dp;
  c.pp = rank / p_.dp;
  return c;
}

int Mesh::group_size(GroupKind kind) const {
  switch (kind) {
    case GroupKind::tp: return p_.tp;
    case GroupKind::cp: return p_.cp;
    case GroupKind::dp: return p_.dp;
    case GroupKind::dp_cp: return p_.dp * p_.cp;
    case GroupKind::pp: return p_.pp;
    case GroupKind::embedding: return p_.pp > 1 ? 2 : 1;
  }
  return 1;
}

std::vector<int> Mesh::group(GroupKind kind, int rank) const {
  const Coordinates c = coordinates(rank);
  const int stage = p_.tp * p_.cp * p_.dp;
  std::vector<int> ranks;
  ranks.reserve(static_cast<size_t>(group_size(kind)));
  const auto add = [&](int first, int count, int stride) {
    for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  };
  switch (kind) {
    case GroupKind::tp: add(rank - c.tp, p_.tp, 1); break;
    case GroupKind::cp: add(rank - c.cp * p_.tp, p_.cp, p_.tp); break;
    case GroupKind::dp: add(rank - c.dp * p_.tp * p_.cp, p_.dp, p_.tp * p_.cp); break;
    case GroupKind::dp_cp: add(c.pp * stage + c.tp, p_.dp * p_.cp, p_.tp); break;
    case GroupKind::pp: add(rank - c.pp * stage, p_.pp, stage); break;
    case GroupKind::embedding:
      add(rank - c.pp * stage, 1, 1);
      if (p_.pp > 1) ranks.push_back(rank + (p_.pp - 1 - c.pp) * stage);
      break;
  }
  return ranks;
}

std::vector<Straddling> straddling(const Mesh& mesh, int nvlink_domain) {
  std::vector<Straddling> rows;
  for (GroupKind kind : all_kinds) {
    const int size = mesh.group_size(kind);
    if (size < 2) continue;
    Straddling row{.kind = kind};
    for (int rank = 0; rank < mesh.world(); ++rank) {
      const std::vector<int> ranks = mesh.group(kind, rank);
      if (ranks.front() != rank) continue;  // each group once, from its first member
      int domains = 0, last = -1;
      for (int r : ranks)
        if (r / nvlink_domain != last) last = r / nvlink_domain, ++domains;
      if (domains > 1) ++row.groups, row.domains = std::max(row.domains, domains);
    }
    if (row.groups > 0) rows.push_back(row);
  }
  return rows;
}

}  // namespace stepsim
