#include "sim/parallel/mesh.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace stepsim {

namespace {
constexpr std::array all_kinds{GroupKind::tp,    GroupKind::cp, GroupKind::dp,
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
    case GroupKind::tp:
      return p_.tp;
    case GroupKind::cp:
      return p_.cp;
    case GroupKind::dp:
      return p_.dp;
    case GroupKind::dp_cp:
      return p_.dp * p_.cp;
    case GroupKind::pp:
      return p_.pp;
    case GroupKind::embedding:
      return p_.pp > 1 ? 2 : 1;
  }
  return 1;
}

Mesh::Line Mesh::line(GroupKind kind, Coordinates c) const {
  const int stage = p_.tp * p_.cp * p_.dp;
  switch (kind) {
    case GroupKind::tp:
      return {.stride = 1, .position = c.tp};
    case GroupKind::cp:
      return {.stride = p_.tp, .position = c.cp};
    case GroupKind::dp:
      return {.stride = p_.tp * p_.cp, .position = c.dp};
    case GroupKind::dp_cp:
      return {.stride = p_.tp, .position = c.cp + p_.cp * c.dp};
    case GroupKind::pp:
      return {.stride = stage, .position = c.pp};
    case GroupKind::embedding:
      // The two ends; a rank between them names the pair but is not in it.
      return {.stride = stage * std::max(p_.pp - 1, 1), .position = c.pp == 0 ? 0 : 1};
  }
  return {};
}

std::vector<int> Mesh::group(GroupKind kind, int rank) const {
  Coordinates c = coordinates(rank);
  if (kind == GroupKind::embedding) {
    c.pp = 0;
    rank = this->rank(c);
  }
  const Line l = line(kind, c);
  std::vector<int> ranks(static_cast<size_t>(group_size(kind)));
  for (int i = 0; i < group_size(kind); ++i)
    ranks[static_cast<size_t>(i)] = rank + (i - l.position) * l.stride;
  return ranks;
}

std::vector<Straddling> straddling(const Mesh& mesh, int nvlink_domain) {
  std::vector<Straddling> rows;
  for (GroupKind kind : all_kinds) {
    const int size = mesh.group_size(kind);
    if (size < 2) continue;
    Straddling row{.kind = kind};
    for (int rank = 0; rank < mesh.world(); ++rank) {
      const Coordinates c = mesh.coordinates(rank);
      const Mesh::Line l = mesh.line(kind, c);
      if (l.position != 0) continue;  // each group once, from its first member
      int domains = 0, last = -1;
      for (int i = 0; i < size; ++i) {
        const int domain = (rank + i * l.stride) / nvlink_domain;
        domains += domain != last;
        last = domain;
      }
      if (domains > 1) ++row.groups, row.domains = std::max(row.domains, domains);
    }
    if (row.groups > 0) rows.push_back(row);
  }
  return rows;
}

}  // namespace stepsim
