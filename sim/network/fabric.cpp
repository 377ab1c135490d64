#include "sim/network/fabric.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <string>
#include <utility>

#include "sim/base/error.h"
#include "sim/network/topology.h"

namespace stepsim {
namespace {

std::string gpu_name(int gpu) { return "gpu" + std::to_string(gpu); }

bool is_gpu_name(const std::string& name) {
  return name.size() > 3 && name.starts_with("gpu") &&
         std::all_of(name.begin() + 3, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Links GPUs `first` .. `last` to their NVSwitch. Half the latency on each side makes one hop.
void add_nvlink(Topology& topology, const Cluster& cluster, int nvswitch,
                const std::vector<int>& gpu_vertices) {
  const BytesPerSecond port = cluster.device.nvlink_bandwidth * cluster.device.nvlink_efficiency;
  for (const int gpu : gpu_vertices)
    topology.add_link(gpu, nvswitch, port, cluster.device.nvlink_latency / 2);
}

/// Where a node hangs in the switch tiers: the group number at each tier, leaf first.
std::vector<int> groups_above(const Cluster& cluster, int node) {
  std::vector<int> groups;
  int group = node;
  for (size_t tier = 0; tier < cluster.tiers.size(); ++tier) {
    // The last tier is built as wide as the system needs.
    const bool last = tier + 1 == cluster.tiers.size();
    group = last ? 0 : group / std::max(1, cluster.tiers[tier].radix);
    groups.push_back(group);
  }
  return groups;
}

/// What one GPU may send when every GPU sends: its NICs, or its part of one.
BytesPerSecond nic_share(const Cluster& cluster) {
  return cluster.nic_bandwidth * cluster.nic_efficiency *
         (static_cast<double>(cluster.nics_per_node) / cluster.gpus_per_node);
}

/// Rails that no spine joins and NVLink domains smaller than a node: a node's rails meet only in
/// its host.
bool rails_meet_in_host(const Cluster& cluster) {
  return cluster.rail_optimised && cluster.tiers.size() == 1 &&
         cluster.nvlink_domain < cluster.gpus_per_node;
}

/// Hosts of a regular system with the switches above them, added as they are asked for.
class RegularSystem {
 public:
  explicit RegularSystem(const Cluster& cluster) : cluster_(cluster) {}

  void add_host(int node) {
    const int gpus = cluster_.gpus_per_node;
    std::vector<int> vertices;
    for (int i = 0; i < gpus; ++i) {
      const int gpu = node * gpus + i;
      vertices.push_back(gpu_[gpu] = topology_.add_vertex(gpu_name(gpu)));
    }
    if (cluster_.nvlink_domain > 1)
      for (int i = 0; i < gpus; ++i) {
        const int domain = (node * gpus + i) / cluster_.nvlink_domain;
        add_nvlink(topology_, cluster_, vertex(nvlink_level, "nvswitch" + std::to_string(domain)),
                   {vertices[static_cast<size_t>(i)]});
      }
    // Through the host: the GPU's share of the NICs there too, and half a NIC's latency a side, for
    // want of figures of its own. NVLink or a NIC of the right rail is nearer where there is one.
    if (rails_meet_in_host(cluster_)) {
      const int host = vertex(host_level, "node" + std::to_string(node) + ".host");
      for (const int gpu : vertices)
        topology_.add_link(gpu, host, nic_share(cluster_), cluster_.nic_latency / 2);
    }
    // A rail is a NIC, or all the NICs of one GPU.
    const int rails = std::min(gpus, cluster_.nics_per_node);
    for (int rail = 0; rail < rails; ++rail) {
      const int nic =
          vertex(nic_level, "node" + std::to_string(node) + ".nic" + std::to_string(rail));
      for (int i = 0; i < gpus; ++i)
        if (i * rails / gpus == rail)
          topology_.add_link(vertices[static_cast<size_t>(i)], nic, nic_share(cluster_),
                             cluster_.nic_latency / 2);
      add_uplinks(nic, node, rail);
    }
  }

  Route route(int gpu_a, int gpu_b) const {
    return topology_.shortest(gpu_.at(gpu_a), gpu_.at(gpu_b));
  }

 private:
  void add_uplinks(int below, int node, int rail) {
    BytesPerSecond share = nic_share(cluster_);
    Seconds below_latency;  // of the vertex below; NIC latency is on the GPU's side
    const std::vector<int> groups = groups_above(cluster_, node);
    for (size_t t = 0; t < groups.size(); ++t) {
      const Tier& tier = cluster_.tiers[t];
      std::string name = tier.name + std::to_string(groups[t]);
      if (t == 0 && cluster_.rail_optimised) name += ".rail" + std::to_string(rail);
      const int level = static_cast<int>(t);
      const bool known = others_.contains({level, name});
      const int above = vertex(level, name);
      topology_.add_link(below, above, share, (below_latency + tier.latency) / 2);
      if (known) return;  // whatever is above was linked when this switch was added
      share = share / std::max(1.0, tier.oversubscription);
      below_latency = tier.latency;
      below = above;
    }
  }

  // Beside the tiers' 0, 1, ...
  static constexpr int host_level = -3, nvlink_level = -2, nic_level = -1;
  int vertex(int level, const std::string& name) {
    const auto [found, added] = others_.try_emplace({level, name}, 0);
    if (added) found->second = topology_.add_vertex(name);
    return found->second;
  }

  const Cluster& cluster_;
  Topology topology_;
  std::map<int, int> gpu_;                             ///< GPU number to vertex
  std::map<std::pair<int, std::string>, int> others_;  ///< level and name to vertex
};

/// NVLink between two GPUs of one domain; no other path competes with it.
Route nvlink_route(const Cluster& cluster, int gpu_a, int gpu_b) {
  Topology topology;
  const int a = topology.add_vertex(gpu_name(gpu_a)), b = topology.add_vertex(gpu_name(gpu_b));
  const int domain = gpu_a / cluster.nvlink_domain;
  add_nvlink(topology, cluster, topology.add_vertex("nvswitch" + std::to_string(domain)), {a, b});
  Route route = topology.shortest(a, b);
  route.inside_domain = true;
  return route;
}

/// The whole graph of a free-form system. GPUs in use are vertices 0, 1, ...
Topology free_form(const Cluster& cluster) {
  Topology topology;
  std::map<std::string, int> vertices;
  for (int gpu = 0; gpu < cluster.gpus; ++gpu)
    vertices[gpu_name(gpu)] = topology.add_vertex(gpu_name(gpu));
  if (cluster.nvlink_domain > 1)
    for (int first = 0; first < cluster.gpus; first += cluster.nvlink_domain) {
      std::vector<int> members;
      for (int gpu = first; gpu < std::min(first + cluster.nvlink_domain, cluster.gpus); ++gpu)
        members.push_back(gpu);
      const int domain = first / cluster.nvlink_domain;
      add_nvlink(topology, cluster, topology.add_vertex("nvswitch" + std::to_string(domain)),
                 members);
    }
  const auto vertex = [&](const std::string& name) {
    const auto found = vertices.find(name);
    if (found != vertices.end()) return found->second;
    return vertices[name] = topology.add_vertex(name);
  };
  for (const TopologyLink& link : cluster.links) {
    const int from = vertex(link.from), to = vertex(link.to);
    // Half of the NIC's latency where a link meets a GPU: both ends of a route make it whole.
    const int ends = int{is_gpu_name(link.from)} + int{is_gpu_name(link.to)};
    topology.add_link(from, to, link.bandwidth * cluster.nic_efficiency,
                      link.latency + cluster.nic_latency * (0.5 * ends));
  }
  const std::vector<int> component = topology.components();
  for (int gpu = 1; gpu < cluster.gpus; ++gpu)
    if (component[static_cast<size_t>(gpu)] != component[0])
      throw Error(cluster.file, cluster.pointer + "/links",
                  "no path of links connects " + gpu_name(gpu) + " with gpu0; all " +
                      std::to_string(cluster.gpus) + " GPUs in use must be connected");
  return topology;
}

}  // namespace

struct Fabric::Impl {
  Cluster cluster;
  std::unique_ptr<Topology> free_form;                        ///< null for a regular system
  std::map<int, std::pair<BytesPerSecond, Seconds>> figures;  ///< by route class, once asked for
};

Fabric::Fabric(const Cluster& cluster) : impl_(new Impl{cluster, nullptr, {}}) {
  // A system without tiers is one switch that costs nothing.
  if (cluster.tiers.empty()) impl_->cluster.tiers.push_back({"switch", 0, 1, {}});
  if (!cluster.links.empty())
    impl_->free_form = std::make_unique<Topology>(stepsim::free_form(cluster));
}
Fabric::Fabric(Fabric&&) noexcept = default;
Fabric::~Fabric() = default;

int Fabric::gpu_of(int rank) const {
  const Cluster& c = impl_->cluster;
  if (c.hosts.empty()) return rank;
  return c.hosts[static_cast<size_t>(rank / c.gpus_per_node)] * c.gpus_per_node +
         rank % c.gpus_per_node;
}

int Fabric::domain_of(int rank) const {
  return gpu_of(rank) / std::max(1, impl_->cluster.nvlink_domain);
}
int Fabric::node_of(int rank) const { return gpu_of(rank) / impl_->cluster.gpus_per_node; }

int Fabric::route_class(int rank_a, int rank_b) const {
  if (impl_->free_form) return -1;
  if (domain_of(rank_a) == domain_of(rank_b)) return 0;
  const Cluster& cluster = impl_->cluster;
  const int node_a = node_of(rank_a), node_b = node_of(rank_b);
  const int gpu_a = gpu_of(rank_a), gpu_b = gpu_of(rank_b);
  int level = node_a == node_b ? 1 : 2;  // then the lowest tier whose switches both share
  // The groups of groups_above, without the lists: this is asked for every pair of ranks.
  int a = node_a, b = node_b;
  for (size_t tier = 0; tier + 1 < cluster.tiers.size(); ++tier) {
    const int radix = std::max(1, cluster.tiers[tier].radix);
    a /= radix, b /= radix;
    if (a == b) break;
    ++level;
  }
  const int gpus = cluster.gpus_per_node;
  return (level * gpus + gpu_a % gpus) * gpus + gpu_b % gpus;
}

std::pair<BytesPerSecond, Seconds> Fabric::figures(int rank_a, int rank_b) const {
  const int kind = route_class(rank_a, rank_b);
  // Class 0 is NVLink, a GPU's way to itself included.
  if (kind > 0)
    if (const auto known = impl_->figures.find(kind); known != impl_->figures.end())
      return known->second;
  const Route found = route(rank_a, rank_b);
  const std::pair figures(found.bandwidth, found.latency);
  if (kind > 0) impl_->figures.emplace(kind, figures);
  return figures;
}

Route Fabric::route(int rank_a, int rank_b) const {
  const Cluster& cluster = impl_->cluster;
  const int gpu_a = gpu_of(rank_a), gpu_b = gpu_of(rank_b);
  assert(gpu_a >= 0 && gpu_b >= 0);
  if (gpu_a == gpu_b)
    return {.inside_domain = true,
            .bandwidth = cluster.device.nvlink_bandwidth * cluster.device.nvlink_efficiency,
            .latency = {},
            .hops = 0,
            .links = {},
            .vertices = {gpu_name(gpu_a)}};
  if (domain_of(rank_a) == domain_of(rank_b)) return nvlink_route(cluster, gpu_a, gpu_b);
  if (impl_->free_form) return impl_->free_form->shortest(gpu_a, gpu_b);
  RegularSystem system(cluster);
  system.add_host(node_of(rank_a));
  if (node_of(rank_b) != node_of(rank_a)) system.add_host(node_of(rank_b));
  return system.route(gpu_a, gpu_b);
}

}  // namespace stepsim
