// Pairs: NCCL send/recv, and a neighbour's buffer written directly.
#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/network/algorithm.h"

namespace stepsim {
namespace {

// NCCL src/enqueue.cc: a pair gets its part of 32 channels, more once its bytes fill them. The part
// and its size agree with sendrecv over NVLink in 4, 8 and 64 ranks (xxrjun H100, openxla/xla
// performance tables).
constexpr double pair_channels = 32;
constexpr int network_channels = 4;  // a NIC of 400 Gb/s at 14 GB/s a channel (src/graph/paths.cc)
constexpr Bytes bytes_per_channel{16.0 * 1024 * 1024};

double channels_of_pair(Bytes bytes, const GroupPlacement& group) {
  const double ranks = std::bit_ceil(static_cast<unsigned>(std::max(2, group.size)));
  return std::clamp(bytes / bytes_per_channel, std::max(1.0, pair_channels / ranks), pair_channels);
}

CollectiveCost transfer_cost(Bytes bytes, Seconds latency, BytesPerSecond rate, bool inside) {
  CollectiveCost cost;
  cost.latency = latency;
  cost.duration = latency + bytes / rate;
  cost.wire_bytes = bytes;
  (inside ? cost.nvlink_rate : cost.nic_rate) = rate;
  set_memory_rate(Collective::send_recv, cost);
  return cost;
}

}  // namespace

bool pair_serves(Collective op, const GroupPlacement&) { return op == Collective::send_recv; }

CollectiveCost pair_cost(Collective, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster) {
  CollectiveCost cost;
  if (group.domains > 1) {
    cost = transfer_cost(bytes, start_up(cluster) + group.network_latency, group.network_bandwidth,
                         false);
    cost.channels = network_channels;
  } else {
    const double channels = channels_of_pair(bytes, group);
    BytesPerSecond rate = nvlink_bus(cluster);
    if (cluster.device.nvlink_channel_bandwidth > BytesPerSecond{})
      rate = std::min(rate, cluster.device.nvlink_channel_bandwidth * channels);
    cost = transfer_cost(bytes, start_up(cluster) + cluster.device.nvlink_latency, rate, true);
    cost.channels = static_cast<int>(std::ceil(channels));
  }
  cost.sms = cost.channels;
  cost.protocol = "Simple";
  return cost;
}

bool copy_serves(Collective op, const GroupPlacement&) { return op == Collective::peer_copy; }

CollectiveCost copy_cost(Collective, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster) {
  if (group.domains > 1)
    return transfer_cost(bytes, group.network_latency, group.network_bandwidth, false);
  return transfer_cost(bytes, cluster.device.nvlink_latency, nvlink_bus(cluster), true);
}

Plan pair_plan(Collective, const GroupPlacement&) {
  Plan plan;
  plan.moves.push_back({.step = 0, .from = 0, .to = 1, .channel = 0, .chunk = 0, .reduce = false});
  return plan;
}

}  // namespace stepsim
