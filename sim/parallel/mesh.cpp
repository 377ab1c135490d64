#include "sim/parallel/mesh.h"

#include <cassert>

namespace stepsim {

const char* name(GroupKind kind) {
  constexpr std::array<const char*, group_kind_count> names{
      "tp",  "cp",     "dp",       "dp_cp",    "pp",       "embedding", "ep",        "etp",
      "edp", "etp_ep", "cp_inner", "cp_outer", "dp_inner", "dp_outer",  "edp_inner", "edp_outer"};
  return names[static_cast<size_t>(kind)];
}

int Mesh::stage_stride() const { return p_.pp_before_dp ? p_.tp * p_.cp : p_.tp * p_.cp * p_.dp; }

int Mesh::rank(Coordinates c) const {
  const int dp_stride = p_.tp * p_.cp * (p_.pp_before_dp ? p_.pp : 1);
  return c.tp + p_.tp * c.cp + dp_stride * c.dp + stage_stride() * c.pp;
}

Coordinates Mesh::coordinates(int rank) const {
  assert(rank >= 0 && rank < world());
  const int dp_stride = p_.tp * p_.cp * (p_.pp_before_dp ? p_.pp : 1);
  return {.tp = rank % p_.tp,
          .cp = rank / p_.tp % p_.cp,
          .dp = rank / dp_stride % p_.dp,
          .pp = rank / stage_stride() % p_.pp};
}

std::array<Mesh::Axis, 2> Mesh::axes(GroupKind kind) const {
  const int after_pp = p_.pp_before_dp ? p_.pp : 1;
  const Axis cp{p_.cp, p_.tp}, dp{p_.dp, p_.tp * p_.cp * after_pp};
  const int copies = p_.optimizer_instances;
  // Slices are consecutive members; where the pipeline parts CP from DP, whole CP groups or parts
  // of one.
  const int slice = p_.cp * p_.dp / copies;
  const bool whole = slice % p_.cp == 0;
  switch (kind) {
    case GroupKind::tp:
      return {{{p_.tp, 1}, {}}};
    case GroupKind::cp:
      return {{cp, {}}};
    case GroupKind::dp:
      return {{dp, {}}};
    case GroupKind::dp_cp:
      return {{cp, dp}};
    case GroupKind::pp:
      return {{{p_.pp, stage_stride()}, {}}};
    case GroupKind::embedding:
      return {};
    case GroupKind::ep:
      return {{{p_.ep, p_.etp}, {}}};
    case GroupKind::etp:
      return {{{p_.etp, 1}, {}}};
    case GroupKind::etp_ep:
      return {{{p_.etp * p_.ep, 1}, {}}};
    case GroupKind::cp_inner:
      return {{{p_.cp_inner, p_.tp}, {}}};
    case GroupKind::cp_outer:  // without a hierarchy the ring is the cp group
      return {{{p_.cp_inner > 1 ? p_.cp / p_.cp_inner : 1, p_.tp * p_.cp_inner}, {}}};
    case GroupKind::edp:
      return {{{p_.edp(), p_.etp * p_.ep * after_pp}, {}}};
    case GroupKind::dp_inner:
      if (copies == 1) return {};
      if (!p_.pp_before_dp) return {{{slice, p_.tp}, {}}};
      return whole ? std::array<Axis, 2>{{cp, {slice / p_.cp, dp.stride}}}
                   : std::array<Axis, 2>{{{slice, p_.tp}, {}}};
    case GroupKind::dp_outer:
      if (copies == 1) return {};
      if (!p_.pp_before_dp) return {{{copies, p_.tp * slice}, {}}};
      return whole ? std::array<Axis, 2>{{{copies, slice / p_.cp * dp.stride}, {}}}
                   : std::array<Axis, 2>{{{p_.cp / slice, p_.tp * slice}, dp}};
    case GroupKind::edp_inner:
      if (copies == 1) return {};
      return {{{p_.edp() / copies, p_.etp * p_.ep * after_pp}, {}}};
    case GroupKind::edp_outer:
      if (copies == 1) return {};
      return {{{copies, p_.edp() / copies * p_.etp * p_.ep * after_pp}, {}}};
  }
  return {};
}

int Mesh::group_size(GroupKind kind) const {
  if (kind == GroupKind::embedding) return p_.pp > 1 ? 2 : 1;
  const std::array<Axis, 2> a = axes(kind);
  return a[0].count * a[1].count;
}

bool Mesh::leads(GroupKind kind, int rank) const {
  if (kind == GroupKind::embedding) return coordinates(rank).pp == 0;
  const std::array<Axis, 2> a = axes(kind);
  return a[0].digit(rank) == 0 && a[1].digit(rank) == 0;
}

std::vector<int> Mesh::group(GroupKind kind, int rank) const {
  if (kind == GroupKind::embedding) {
    const int first = rank - coordinates(rank).pp * stage_stride();
    if (p_.pp == 1) return {first};
    return {first, first + (p_.pp - 1) * stage_stride()};
  }
  const std::array<Axis, 2> a = axes(kind);
  const int first = rank - a[0].digit(rank) * a[0].stride - a[1].digit(rank) * a[1].stride;
  std::vector<int> ranks;
  ranks.reserve(static_cast<size_t>(a[0].count * a[1].count));
  for (int j = 0; j < a[1].count; ++j)
    for (int i = 0; i < a[0].count; ++i) ranks.push_back(first + i * a[0].stride + j * a[1].stride);
  return ranks;
}

std::vector<Straddling> straddling(const Mesh& mesh, int nvlink_domain) {
  std::vector<Straddling> rows;
  for (int k = 0; k < group_kind_count; ++k) {
    const auto kind = static_cast<GroupKind>(k);
    const bool part = kind == GroupKind::cp_inner || kind == GroupKind::cp_outer;  // of cp
    if (part || mesh.group_size(kind) < 2) continue;
    Straddling row{.kind = kind, .groups = 0, .domains = 0, .total = 0, .members = {}};
    for (int rank = 0; rank < mesh.world(); ++rank) {
      if (!mesh.leads(kind, rank)) continue;
      ++row.total;
      std::vector<int> members;
      int last = -1;
      for (int r : mesh.group(kind, rank)) {  // ascending: a domain's members follow each other
        const int domain = r / nvlink_domain;
        if (domain != last) members.push_back(0);
        ++members.back();
        last = domain;
      }
      const auto domains = static_cast<int>(members.size());
      if (domains < 2) continue;
      if (row.groups++ == 0) row.members = members;
      row.domains = std::max(row.domains, domains);
    }
    if (row.groups > 0) rows.push_back(row);
  }
  return rows;
}

}  // namespace stepsim
