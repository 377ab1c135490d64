#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/report/html_parts.h"

namespace stepsim {
namespace {

/// Groups of a kind as two steps through the ranks: `count` at a stride, the first step fastest.
/// All groups of a kind are rank 0's, shifted.
Json steps_json(const std::vector<int>& group) {
  const size_t size = group.size();
  const int stride = group[1] - group[0];
  size_t run = 1;
  while (run < size && group[run] - group[run - 1] == stride) ++run;
  if (run == size) return {{size, stride}};
  return {{run, stride}, {size / run, group[run] - group[0]}};
}

}  // namespace

Json placement_json(const Drawing& d) {
  const Scenario& s = d.scenario;
  if (s.costs) return nullptr;
  const Parallelism& p = s.parallel;
  const Cluster& c = s.cluster;
  const Mesh mesh(p);
  Json groups = Json::array();
  for (const GroupKind kind : {GroupKind::tp, GroupKind::cp, GroupKind::dp, GroupKind::dp_cp,
                               GroupKind::pp, GroupKind::ep, GroupKind::etp, GroupKind::edp}) {
    if (is_expert(kind) && !s.model.moe.present()) continue;
    if (kind == GroupKind::dp_cp && (p.cp < 2 || p.dp < 2)) continue;
    const std::vector<int> group = mesh.group(kind, 0);
    if (group.size() < 2) continue;
    groups.push_back({{"kind", name(kind)}, {"steps", steps_json(group)}});
  }
  Json simulated = Json::array();
  for (const SimulatedDevice& one : d.step.devices) simulated.push_back(one.rank);
  Json tiers = Json::array();
  for (const Tier& t : c.tiers) tiers.push_back({{"name", t.name}, {"radix", t.radix}});
  return {{"world", p.world()},
          {"stage_stride", mesh.stage_stride()},
          {"pp", p.pp},
          {"pp_groups", p.pp},
          {"gpus_per_node", c.gpus_per_node},
          {"nvlink_domain", c.nvlink_domain},
          {"hosts", c.hosts},
          {"tiers", tiers},
          {"rail_optimised", c.rail_optimised},
          {"free_form", !c.links.empty()},
          {"groups", groups},
          {"simulated", simulated}};
}

}  // namespace stepsim
