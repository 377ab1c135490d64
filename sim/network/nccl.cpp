#include "sim/network/nccl.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stepsim {
namespace {

/// Rates: src/graph/tuning.cc. Latencies over Simple's: fitted to all-reduce and all-gather below 1
/// MiB on 8 H100, H200 and 64 GB200 (NCCL's own constants, 0.34 and 0.85 on 8 H100, hold no
/// launch).
/// `threads * threshold`: bytes that fill one channel (src/enqueue.cc).
struct ProtocolRow {
  std::string_view name;
  double rate, network_rate, latency, channel_bytes;
};
constexpr std::array<ProtocolRow, protocol_count> protocol_rows{{
    {"LL", 0.5, 0.5, 0.75, 512 * 8},
    {"LL128", 0.92, 0.97, 0.9, 640 * 8},
    {"Simple", 1, 1, 1, 512 * 64},
}};
const ProtocolRow& protocol_row(Protocol protocol) {
  return protocol_rows[static_cast<size_t>(protocol)];
}

/// Channels by architecture (src/graph/search.cc and connect.cc: what the search finds, doubled;
/// src/transport/nvls.cc).
struct ChannelRow {
  std::string_view architecture;
  int ring, nvls, nvls_network;
};
constexpr std::array<ChannelRow, 3> channel_rows{{
    {"ampere", 24, 0, 0},
    {"hopper", 24, 16, 16},
    {"blackwell", 16, 24, 32},
}};
const ChannelRow& channels_of(const Cluster& cluster) {
  for (const ChannelRow& r : channel_rows)
    if (r.architecture == cluster.device.architecture) return r;
  return channel_rows[1];
}

/// The part of the rate that is left when `channels` are limited.
double channel_share(int channels, const Cluster& cluster) {
  return std::min(1.0, static_cast<double>(allowed_channels(channels, cluster)) / channels);
}

}  // namespace

double rate_factor(Protocol protocol) { return protocol_row(protocol).rate; }
double network_rate_factor(Protocol protocol) { return protocol_row(protocol).network_rate; }
double latency_factor(Protocol protocol) { return protocol_row(protocol).latency; }
std::string_view protocol_name(Protocol protocol) { return protocol_row(protocol).name; }

BytesPerSecond nvlink_bus(const Cluster& cluster) {
  return cluster.device.nvlink_bandwidth * cluster.device.nvlink_efficiency;
}

Seconds start_up(const Cluster& cluster) {
  return cluster.device.nvlink_half_message / nvlink_bus(cluster);
}

Seconds ramped(Bytes bytes, Bytes ramp, BytesPerSecond rate) {
  return Bytes{bytes.value + std::sqrt(bytes.value * ramp.value)} / rate;
}

// Every member's port carries (n-1)/n of the bytes, and own_share/n more in time: its own shard is
// copied, not received, and the pipeline fills meanwhile. That is why 2 ranks reach two thirds of
// the bus bandwidth and 8 nearly all of it. Between domains k = per_domain channels leave each
// domain through k NICs, so each NIC carries (n-1)/n/k of the bytes.
Seconds ring_transfer(int passes, Bytes bytes, const GroupPlacement& group, const Cluster& cluster,
                      Protocol protocol) {
  const double n = group.size;
  const ChannelShares share = ring_shares(group, cluster);
  Seconds transfer;
  if (group.per_domain > 1) {
    const double steps = n - 1 + cluster.device.nvlink_own_share;
    // LL waits for no slices: nothing runs up.
    const Bytes ramp = protocol == Protocol::ll ? Bytes{} : passes * cluster.device.nvlink_ramp;
    transfer = ramped(passes * steps / n * bytes, ramp,
                      nvlink_bus(cluster) * (rate_factor(protocol) * share.nvlink));
  }
  if (group.domains > 1)
    transfer = std::max(transfer, passes * (n - 1) / n * bytes /
                                      (group.network_bandwidth * group.per_domain *
                                       (network_rate_factor(protocol) * share.network)));
  return transfer;
}

// Each member sends its whole buffer up for the switch to add, and its finished share down for the
// switch to multicast: 1 + 1/k of the bytes each way.
Seconds nvls_transfer(Bytes bytes, const GroupPlacement& group, const Cluster& cluster) {
  const double k = group.per_domain;
  const Device& device = cluster.device;
  const double share = nvls_shares(group, cluster).nvlink;
  return ramped((k + 1) / k * bytes, device.nvls_ramp,
                device.nvlink_bandwidth * (device.nvls_efficiency * share));
}

// Between domains every NIC has one ring, doubled, and doubled again below 16.
int ring_channels(const GroupPlacement& group, const Cluster& cluster) {
  constexpr int network_channels = 16;
  if (group.domains > 1) return std::min(network_channels, 4 * group.per_domain);
  return channels_of(cluster).ring;
}

int nvls_channels(const GroupPlacement& group, const Cluster& cluster) {
  return group.domains > 1 ? channels_of(cluster).nvls_network : channels_of(cluster).nvls;
}

int allowed_channels(int channels, const Cluster& cluster) {
  const NcclSettings& nccl = cluster.nccl;
  if (nccl.min_ctas > 0) channels = std::max(channels, nccl.min_ctas);
  if (nccl.max_ctas > 0) channels = std::min(channels, nccl.max_ctas);
  return std::max(1, channels);
}

// The channels of one domain fill NVLink, those of a group over several the network: a limit leaves
// the same of NVLink wherever the rest of the group is.
ChannelShares ring_shares(const GroupPlacement& group, const Cluster& cluster) {
  return {channel_share(channels_of(cluster).ring, cluster),
          channel_share(ring_channels(group, cluster), cluster)};
}

ChannelShares nvls_shares(const GroupPlacement& group, const Cluster& cluster) {
  return {channel_share(std::max(1, channels_of(cluster).nvls), cluster),
          channel_share(std::max(1, nvls_channels(group, cluster)), cluster)};
}

int busy_channels(Bytes bytes, int channels, Protocol protocol, int ring_members) {
  double filled = protocol_row(protocol).channel_bytes;
  if (protocol == Protocol::ll) filled *= std::max(1, ring_members);
  return static_cast<int>(std::clamp(bytes.value / filled, 1.0, static_cast<double>(channels)));
}

void occupy(CollectiveCost& cost, Protocol protocol, int channels, double operands) {
  cost.protocol = protocol_name(protocol);
  cost.channels = cost.sms = channels;
  cost.hbm_rate = (cost.nvlink_rate + cost.nic_rate) * operands;
}

double operands(Collective op) {
  return op == Collective::all_reduce || op == Collective::reduce_scatter ? 3 : 2;
}

}  // namespace stepsim
