#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "sim/network/collective.h"

namespace stepsim {
namespace {

/// Members by NVLink domain, both in the order in which the group names them.
std::vector<std::vector<int>> by_domain(std::span<const int> gpus, const Fabric& fabric) {
  std::vector<std::vector<int>> domains;
  std::map<int, size_t> index;
  for (const int gpu : gpus) {
    const auto [found, added] = index.try_emplace(fabric.domain_of(gpu), domains.size());
    if (added) domains.emplace_back();
    domains[found->second].push_back(gpu);
  }
  return domains;
}

}  // namespace

// The ring visits domain after domain; member i of one sends to member i of the next. The slowest
// such route sets the pace.
GroupPlacement place(std::span<const int> gpus, const Fabric& fabric) {
  GroupPlacement group;
  group.size = static_cast<int>(gpus.size());
  const std::vector<std::vector<int>> domains = by_domain(gpus, fabric);
  if (domains.empty()) return group;
  group.domains = static_cast<int>(domains.size());
  const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const std::vector<int>& fewest = *std::min_element(domains.begin(), domains.end(), fewer);
  group.per_domain = static_cast<int>(fewest.size());
  if (group.domains == 1) return group;

  group.network_bandwidth = {std::numeric_limits<double>::infinity()};
  using Hop = std::pair<std::string, std::string>;
  std::map<Hop, std::pair<BytesPerSecond, int>>
      flows;  // free-form: this group's flows on each link
  for (size_t d = 0; d < domains.size(); ++d)
    for (size_t i = 0; i < fewest.size(); ++i) {
      const int from = domains[d][i], to = domains[(d + 1) % domains.size()][i];
      if (fabric.route_class(from, to) >= 0) {
        const auto [bandwidth, latency] = fabric.figures(from, to);
        group.network_bandwidth = std::min(group.network_bandwidth, bandwidth);
        group.network_latency = std::max(group.network_latency, latency);
        continue;
      }
      const Route route = fabric.route(from, to);
      group.network_bandwidth = std::min(group.network_bandwidth, route.bandwidth);
      group.network_latency = std::max(group.network_latency, route.latency);
      for (size_t hop = 0; hop < route.links.size(); ++hop) {
        auto& [bandwidth, count] = flows[{route.vertices[hop], route.vertices[hop + 1]}];
        bandwidth = route.links[hop];
        ++count;
      }
    }
  for (const auto& [hop, flow] : flows)
    group.network_bandwidth = std::min(group.network_bandwidth, flow.first / flow.second);
  return group;
}

int next_over_network(std::span<const int> gpus, int gpu, const Fabric& fabric) {
  const std::vector<std::vector<int>> domains = by_domain(gpus, fabric);
  for (size_t d = 0; d < domains.size() && domains.size() > 1; ++d)
    for (size_t i = 0; i < domains[d].size(); ++i) {
      const std::vector<int>& next = domains[(d + 1) % domains.size()];
      if (domains[d][i] == gpu) return i < next.size() ? next[i] : -1;
    }
  return -1;
}

bool nics_divide_nodes(const Cluster& cluster) {
  return cluster.nics_per_node >= cluster.gpus_per_node ||
         cluster.gpus_per_node % std::max(1, cluster.nics_per_node) == 0;
}

std::vector<int> sharing_units(const Cluster& cluster) {
  const int gpus = cluster.gpus_per_node;
  std::vector<int> units{std::max(1, cluster.nvlink_domain), gpus};
  if (cluster.nics_per_node < gpus && nics_divide_nodes(cluster))
    units.push_back(gpus / cluster.nics_per_node);
  // The last tier spans the system.
  int64_t unit = gpus;
  for (size_t tier = 0; tier + 1 < cluster.tiers.size(); ++tier) {
    unit = std::min<int64_t>(unit * std::max(1, cluster.tiers[tier].radix), cluster.gpus);
    units.push_back(static_cast<int>(unit));
  }
  return units;
}

std::vector<double> placement_key(const GroupPlacement& group) {
  return {static_cast<double>(group.size), static_cast<double>(group.per_domain),
          static_cast<double>(group.domains), group.network_bandwidth.value,
          group.network_latency.value};
}

}  // namespace stepsim
