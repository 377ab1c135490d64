// Pairs: NCCL send/recv, and a neighbour's buffer written directly.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "sim/network/nccl.h"

namespace stepsim {
namespace {

// NCCL src/enqueue.cc: a pair gets its part of 32 channels, more once its bytes fill them. The part
// and its size agree with sendrecv over NVLink in 4, 8 and 64 ranks (xxrjun H100, openxla/xla
// performance tables).
constexpr double pair_channels = 32;
constexpr Bytes bytes_per_channel{16.0 * 1024 * 1024};

/// Channels to one peer over the network and what one carries (NCCL src/graph/paths.cc; the first
/// release a row holds for). Rates: nccl-tests sendrecv on B200 and H100 with NDR, 2 to 512 ranks:
/// 42, 26 and 14.5 GB/s with 2.29, 34 and 17 with 2.28. `doubled`: rings are duplicated twice, so
/// that twice the channels are there to share.
struct PeerRow {
  int version, channels, doubled;
  BytesPerSecond channel;
};
constexpr std::array<PeerRow, 2> peer_rows{{
    {22900, 4, 1, 13.8_GBps},
    {0, 2, 0, 17.0_GBps},
}};
/// sendrecv of 2 to 16 ranks on NDR: 39.5-44 GB/s of a ring's 47.5.
constexpr double pair_nic_part = 0.9;
/// A pair starts faster than a ring (XLA tables, 16 KiB: 13-19 us).
constexpr double pair_start_part = 0.8;

/// A batch holds work for 8 peers; while the channels of all batches are more than there are, each
/// peer gets half as many: the cliff of large communicators.
int channels_to_peer(const GroupPlacement& group, const Cluster& cluster, const PeerRow& row) {
  const int most = cluster.nccl.max_ctas, set = cluster.nccl.channels_per_net_peer;
  if (set > 0) return most > 0 ? std::min(set, most) : set;
  constexpr int peers_per_batch = 8;
  const int batches = (group.size + peers_per_batch - 1) / peers_per_batch;
  const int there = allowed_channels(ring_channels(group, cluster), cluster) >> (1 - row.doubled);
  int channels = row.channels;
  while (channels > 1 && channels * batches > there) channels /= 2;
  return channels;
}

/// A limit on the channels is one on those of all pairs together (src/graph/paths.cc).
double channels_of_pair(Bytes bytes, const GroupPlacement& group, const Cluster& cluster) {
  const int most = cluster.nccl.max_ctas;
  const double all = most > 0 ? std::min<double>(most, pair_channels) : pair_channels;
  const double ranks = std::bit_ceil(static_cast<unsigned>(std::max(2, group.size)));
  return std::clamp(bytes / bytes_per_channel, std::max(1.0, all / ranks), all);
}

CollectiveCost transfer_cost(Bytes bytes, Seconds latency, BytesPerSecond rate, bool inside) {
  CollectiveCost cost;
  cost.latency = latency;
  cost.duration = latency + bytes / rate;
  cost.wire_bytes = bytes;
  (inside ? cost.nvlink_rate : cost.nic_rate) = rate;
  cost.hbm_rate = rate * operands(Collective::send_recv);
  return cost;
}

}  // namespace

bool pair_serves(Collective op, const GroupPlacement&, const Cluster&) {
  return op == Collective::send_recv;
}

CollectiveCost pair_cost(Collective, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster, Protocol protocol) {
  const Seconds start = start_up(cluster) * pair_start_part;
  CollectiveCost cost;
  int channels = 0;
  if (group.domains > 1) {
    const int version = cluster.nccl.version;
    const PeerRow& row =
        version == 0 || version >= peer_rows[0].version ? peer_rows[0] : peer_rows[1];
    channels = channels_to_peer(group, cluster, row);
    const BytesPerSecond rate =
        std::min(group.network_bandwidth * pair_nic_part, row.channel * channels);
    cost = transfer_cost(bytes, start + group.network_latency, rate, false);
  } else {
    const double wanted = channels_of_pair(bytes, group, cluster);
    BytesPerSecond rate = nvlink_bus(cluster);
    if (cluster.device.nvlink_channel_bandwidth > BytesPerSecond{})
      rate = std::min(rate, cluster.device.nvlink_channel_bandwidth * wanted);
    cost = transfer_cost(bytes, start + cluster.device.nvlink_latency, rate, true);
    channels = static_cast<int>(std::ceil(wanted));
  }
  cost.protocol = protocol_name(protocol);
  cost.channels = cost.sms = channels;
  return cost;
}

bool copy_serves(Collective op, const GroupPlacement&, const Cluster&) {
  return op == Collective::peer_copy;
}

CollectiveCost copy_cost(Collective, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster, Protocol) {
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
