// What NCCL's protocols and channels do to any algorithm. Source: NVIDIA/nccl @ 5067397c (2.30.7),
// src/graph/tuning.cc, src/graph/connect.cc, src/enqueue.cc, src/transport/nvls.cc.
//
// NCCL prices each (algorithm, protocol) as latency + bytes / bandwidth and takes the least; so do
// we, with latencies and rates that others measured in place of its constants, because the time is
// reported too, not only compared. Its constants are kernel times; the measured floor of a
// collective holds a launch as well. Transfers run up slowly: bytes W take (W + sqrt(W * ramp)) /
// rate, which nccl-tests follow from 4 MB to 16 GB (tests/published/collectives.csv).
#pragma once

#include "sim/network/algorithm.h"

namespace stepsim {

/// LL sends a flag with every 4 bytes, so half its rate; LL128 8 bytes in 128. Whole lines over a
/// NIC lose less.
double rate_factor(Protocol protocol);
double network_rate_factor(Protocol protocol);
double latency_factor(Protocol protocol);
std::string_view protocol_name(Protocol protocol);

/// NVLink bus bandwidth of a ring, and what starting a collective kernel costs (an idle start,
/// whatever the bytes).
BytesPerSecond nvlink_bus(const Cluster& cluster);
Seconds start_up(const Cluster& cluster);
/// Time of `bytes` on a link of `rate`, ramp included.
Seconds ramped(Bytes bytes, Bytes ramp, BytesPerSecond rate);
/// Time of the bytes of `passes` ring passes, without latency.
Seconds ring_transfer(int passes, Bytes bytes, const GroupPlacement& group, const Cluster& cluster,
                      Protocol protocol);
/// Bytes through a member's port and their rate when the NVSwitch adds up and multicasts.
Seconds nvls_transfer(Bytes bytes, const GroupPlacement& group, const Cluster& cluster);

/// Channels of rings and trees, and of NVLS, before small messages shed some; each is one thread
/// block on one SM.
int ring_channels(const GroupPlacement& group, const Cluster& cluster);
int nvls_channels(const GroupPlacement& group, const Cluster& cluster);
/// What NCCL_MIN_CTAS and NCCL_MAX_CTAS leave of `channels`.
int allowed_channels(int channels, const Cluster& cluster);
/// What they leave of the rates of rings and trees, and of NVLS.
struct ChannelShares {
  double nvlink = 1, network = 1;
};
ChannelShares ring_shares(const GroupPlacement& group, const Cluster& cluster);
ChannelShares nvls_shares(const GroupPlacement& group, const Cluster& cluster);
/// Channels whose threads `bytes` keep busy; at least one.
int busy_channels(Bytes bytes, int channels, Protocol protocol, int ring_members);
/// Sets protocol, channels, sms and hbm_rate, once the rates on the links are known. `operands`:
/// memory traffic over link traffic, 2 where data is copied (sent and received), 3 where it is
/// added (NVIDIA/nccl issue 1428).
void occupy(CollectiveCost& cost, Protocol protocol, int channels, double operands);
double operands(Collective op);

}  // namespace stepsim
