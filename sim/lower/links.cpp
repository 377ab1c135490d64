#include "sim/lower/links.h"

#include <cassert>

namespace stepsim {

namespace {

/// Ports of one device, in the order in which they become resources.
enum Port : uint32_t { nvlink_out, nvlink_in, nic_out, nic_in, port_count };
ResourceId port(uint32_t device, Port p) { return ResourceId{device * port_count + p}; }

}  // namespace

Links::Links(const Cluster& cluster, std::span<const RankFault> faults, SharedLinks shared,
             TaskGraphBuilder& builder)
    : free_form_(!cluster.links.empty()), shared_(shared), builder_(builder) {
  if (!shared.nvlink && !shared.network) return;
  const double nvlink = cluster.device.nvlink_bandwidth.value * cluster.device.nvlink_efficiency;
  const double nic = cluster.nic_bandwidth.value * cluster.nic_efficiency * cluster.nics_per_node /
                     cluster.gpus_per_node;
  for (uint32_t d = 0; d < faults.size(); ++d) {
    for (Port p : {nvlink_out, nvlink_in, nic_out, nic_in}) {
      [[maybe_unused]] const ResourceId id =
          builder_.add_resource(p == nvlink_out || p == nvlink_in ? nvlink * faults[d].nvlink_factor
                                                                  : nic * faults[d].nic_factor);
      assert(id == port(d, p));
    }
  }
}

std::vector<ResourceId> Links::route(const Fabric& fabric, int from_gpu, int to_gpu) {
  std::vector<ResourceId> ids;
  if (!free_form_ || !shared_.network || from_gpu == to_gpu ||
      fabric.domain_of(from_gpu) == fabric.domain_of(to_gpu))
    return ids;
  const Route route = fabric.route(from_gpu, to_gpu);
  for (size_t hop = 0; hop < route.links.size(); ++hop) {
    const auto [found, added] =
        by_name_.try_emplace({route.vertices[hop], route.vertices[hop + 1]}, ResourceId{});
    if (added) found->second = builder_.add_resource(route.links[hop].value);
    ids.push_back(found->second);
  }
  return ids;
}

void Links::claim(TaskId task, uint32_t out, uint32_t in, double latency_seconds,
                  double nvlink_rate, double nic_rate, std::span<const ResourceId> route) {
  claims_.clear();
  const auto add = [&](ResourceId id, double rate) {
    claims_.push_back({id, static_cast<float>(rate), 1});
  };
  if (shared_.nvlink && nvlink_rate > 0) {
    add(port(out, nvlink_out), nvlink_rate);
    add(port(in, nvlink_in), nvlink_rate);
  }
  if (shared_.network && nic_rate > 0) {
    if (!free_form_) {
      add(port(out, nic_out), nic_rate);
      add(port(in, nic_in), nic_rate);
    }
    for (ResourceId id : route) add(id, nic_rate);
  }
  if (!claims_.empty()) builder_.set_claims(task, latency_seconds, claims_);
}

}  // namespace stepsim
