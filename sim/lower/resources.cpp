#include "sim/lower/resources.h"

#include <algorithm>
#include <cassert>

namespace stepsim {

namespace {

using Role = ProcessorClaim::Role;

/// Of one device, in the order in which they become resources.
enum Port : uint32_t { nvlink_out, nvlink_in, nic_out, nic_in, memory, port_count };
ResourceId port(uint32_t device, Port p) { return ResourceId{device * port_count + p}; }

}  // namespace

TransferLoad load_of(const CollectiveCost& cost) {
  return {cost.nvlink_rate.value, cost.nic_rate.value, cost.hbm_rate.value,
          static_cast<uint32_t>(cost.sms)};
}

Resources::Resources(const Cluster& cluster, std::span<const RankFault> faults, SharedKinds shared,
                     TaskGraphBuilder& builder)
    : cluster_(cluster), shared_(shared), builder_(builder) {
  if (!shared.nvlink && !shared.network && !shared.device) return;
  const Device& d = cluster.device;
  const double nvlink = d.nvlink_bandwidth.value * d.nvlink_efficiency;
  const double nic = cluster.nic_bandwidth.value * cluster.nic_efficiency * cluster.nics_per_node /
                     cluster.gpus_per_node;
  const double memory_bandwidth = d.memory_bandwidth.value * d.memory_efficiency;
  for (const RankFault& fault : faults) {
    const double port = nvlink * fault.nvlink_factor, card = nic * fault.nic_factor;
    for (const double capacity : {port, port, card, card, memory_bandwidth})
      builder_.add_resource(capacity);
    if (shared.device) builder_.add_pool(static_cast<uint32_t>(std::max(1, d.sms)));
  }
}

std::vector<ResourceId> Resources::route(const Fabric& fabric, int from_gpu, int to_gpu) {
  std::vector<ResourceId> ids;
  if (cluster_.links.empty() || !shared_.network || from_gpu == to_gpu ||
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

ClaimSetId Resources::set() {
  const bool none = claims_.empty() && processors_.empty();
  const ClaimSetId id = none ? no_claims : builder_.add_claims(claims_, processors_);
  claims_.clear();
  processors_.clear();
  return id;
}

ClaimSetId Resources::kernel(uint32_t device, double memory_rate, const ProcessorClaim& runner) {
  if (!shared_.device || runner.count == 0) return no_claims;
  claims_.push_back({port(device, memory), static_cast<float>(memory_rate), 1});
  processors_.push_back(runner);
  processors_.back().pool = PoolId{device};
  return set();
}

ClaimSetId Resources::transfer(uint32_t out, uint32_t in, const TransferLoad& load, Held held,
                               std::span<const ResourceId> route) {
  const auto [found, added] = transfers_.try_emplace(
      {out, in, load, held, std::vector(route.begin(), route.end())}, no_claims);
  if (added) found->second = new_transfer(out, in, load, held, route);
  return found->second;
}

ClaimSetId Resources::new_transfer(uint32_t out, uint32_t in, const TransferLoad& load, Held held,
                                   std::span<const ResourceId> route) {
  const auto add = [&](ResourceId id, double rate) {
    claims_.push_back({id, static_cast<float>(rate), 1});
  };
  if (shared_.nvlink && load.nvlink_rate > 0) {
    add(port(out, nvlink_out), load.nvlink_rate);
    add(port(in, nvlink_in), load.nvlink_rate);
  }
  if (shared_.network && load.nic_rate > 0) {
    if (cluster_.links.empty()) {
      add(port(out, nic_out), load.nic_rate);
      add(port(in, nic_in), load.nic_rate);
    }
    for (ResourceId id : route) add(id, load.nic_rate);
  }
  const Role role = held == Held::from_arrival ? Role::give : Role::hold;
  const auto occupy = [&](uint32_t device) {
    if (load.memory_rate > 0) add(port(device, memory), load.memory_rate);
    if (load.sms == 0) return;
    processors_.push_back(
        {.pool = PoolId{device}, .role = role, .yields = load.yields, .count = load.sms});
  };
  if (shared_.device) occupy(out);
  if (shared_.device && in != out) occupy(in);
  return set();
}

ClaimSetId Resources::arrival(uint32_t device, const TransferLoad& load) {
  if (!shared_.device || load.sms == 0) return no_claims;
  const auto [found, added] = arrivals_.try_emplace({device, load}, no_claims);
  if (!added) return found->second;
  processors_.push_back(
      {.pool = PoolId{device}, .role = Role::take, .yields = load.yields, .count = load.sms});
  return found->second = set();
}

}  // namespace stepsim
