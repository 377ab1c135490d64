#include "sim/network/collective.h"

#include <doctest/doctest.h>

#include <numeric>
#include <utility>

#include "tests/network/clusters.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

std::vector<int> ranks(int first, int count, int stride = 1) {
  std::vector<int> gpus(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) gpus[static_cast<size_t>(i)] = first + i * stride;
  return gpus;
}

GroupPlacement placed(const Cluster& cluster, const std::vector<int>& gpus) {
  return place(gpus, Fabric(cluster));
}

}  // namespace

TEST_CASE("place: a tensor-parallel group sits in one domain") {
  const GroupPlacement group = placed(dgx_h100(4), ranks(8, 8));
  CHECK(group.size == 8);
  CHECK(group.per_domain == 8);
  CHECK(group.domains == 1);
}

TEST_CASE("place: a data-parallel group of stride 4 has two members a node and both their NICs") {
  const GroupPlacement group = placed(dgx_h100(4), ranks(1, 8, 4));
  CHECK(group.per_domain == 2);
  CHECK(group.domains == 4);
  CHECK(gbps(group.network_bandwidth) == doctest::Approx(40));
  CHECK(us(group.network_latency) == doctest::Approx(6.5));
}

TEST_CASE("place: the slowest boundary of the ring counts") {
  CHECK(us(placed(dgx_h100(64), ranks(0, 64, 8)).network_latency) == doctest::Approx(7.5));
  // Nodes 0, 32, 1: only the boundary that closes the ring stays under one leaf.
  CHECK(us(placed(dgx_h100(64), {0, 32 * 8, 8}).network_latency) == doctest::Approx(7.5));
  CHECK(gbps(placed(ethernet(8), ranks(0, 2, 8)).network_bandwidth) == doctest::Approx(10));
  CHECK(gbps(placed(ethernet(8), ranks(0, 8, 8)).network_bandwidth) == doctest::Approx(1.25));
}

TEST_CASE("place: GPUs that share a NIC bring it once") {
  const GroupPlacement group = placed(ethernet(2), ranks(0, 16));
  CHECK(gbps(group.network_bandwidth * group.per_domain) == doctest::Approx(80));
}

TEST_CASE("place: NVL72, inside, across, and a domain that is only partly used") {
  CHECK(placed(gb200_nvl72(36), ranks(0, 72)).domains == 1);
  CHECK(placed(gb200_nvl72(36), ranks(0, 2, 72)).per_domain == 1);
  const GroupPlacement half = placed(gb200_nvl72(18), ranks(0, 64));
  CHECK(half.domains == 1);
  CHECK(half.per_domain == 64);
  // 96 = 72 + 24: the domain with the fewest NICs is the one that waits.
  const GroupPlacement uneven = placed(gb200_nvl72(36), ranks(0, 96));
  CHECK(uneven.size == 96);
  CHECK(uneven.domains == 2);
  CHECK(uneven.per_domain == 24);
}

// Two flows over the 30 GB/s link between the switches: 15 GB/s each.
TEST_CASE("place: on a free-form graph a group's own flows share a link") {
  CHECK(gbps(placed(dumbbell(), {0, 1, 2, 3}).network_bandwidth) == doctest::Approx(15));
  CHECK(gbps(placed(dumbbell(), {0, 2}).network_bandwidth) == doctest::Approx(20));
  CHECK(gbps(placed(ring_of_four(), {0, 1, 2, 3}).network_bandwidth) == doctest::Approx(10));
}

// B = 400 GB/s, 2 us a hop, start-up 20 us. 4 ranks, 320 MB: (3 + 1/2)/4 * 320 MB / B = 700 us.
TEST_CASE("all-gather inside a domain") {
  const Cluster cluster = dgx_h100(1);
  const CollectiveCost cost =
      collective_cost(Collective::all_gather, {320e6}, placed(cluster, ranks(0, 4)), cluster);
  CHECK(us(cost.latency) == doctest::Approx(20 + 3 * 2));
  CHECK(us(cost.duration) == doctest::Approx(26 + 700));
  CHECK(cost.wire_bytes.value == doctest::Approx(240e6));
  CHECK(gbps(cost.nvlink_rate) == doctest::Approx(240e3 / 700));
  CHECK(cost.nic_rate.value == 0);
  CHECK(cost.algorithm == "ring");
}

TEST_CASE("all-reduce is a reduce-scatter and an all-gather with one start") {
  const Cluster cluster = dgx_h100(1);
  const GroupPlacement group = placed(cluster, ranks(0, 4));
  const auto duration = [&](Collective op) {
    return us(collective_cost(op, {320e6}, group, cluster).duration);
  };
  CHECK(duration(Collective::all_reduce) == doctest::Approx(duration(Collective::reduce_scatter) +
                                                            duration(Collective::all_gather) - 20));
}

// One member a domain, 40 GB/s NICs, 4 domains: 3/4 * 160 MB / 40 GB/s = 3000 us; hops of 6.5 us.
TEST_CASE("reduce-scatter over single NICs") {
  const Cluster cluster = dgx_h100(4);
  const CollectiveCost cost = collective_cost(Collective::reduce_scatter, {160e6},
                                              placed(cluster, ranks(2, 4, 8)), cluster);
  CHECK(us(cost.latency) == doctest::Approx(20 + 3 * 6.5));
  CHECK(us(cost.duration) == doctest::Approx(39.5 + 3000));
  CHECK(gbps(cost.nic_rate) == doctest::Approx(40));
  CHECK(cost.nvlink_rate.value == 0);
}

// Every member's NIC carries a channel: 8 * 40 = 320 GB/s < 400. 16 ranks: 14 NVLink hops and one
// of 6.5 us.
TEST_CASE("all-gather of two full nodes moves at eight NICs") {
  const Cluster cluster = dgx_h100(2);
  const CollectiveCost cost =
      collective_cost(Collective::all_gather, {1.6e9}, placed(cluster, ranks(0, 16)), cluster);
  CHECK(us(cost.duration) == doctest::Approx(20 + 14 * 2 + 6.5 + 15.0 / 16 * 1.6e9 / 320e3));
  CHECK(gbps(cost.nic_rate) == doctest::Approx(40));
  CHECK(gbps(cost.nvlink_rate) == doctest::Approx(280));
}

TEST_CASE("wide NICs leave NVLink as the limit") {
  Cluster cluster = dgx_h100(2);
  cluster.nic_bandwidth = 100.0_GBps;  // 8 * 80 = 640 GB/s
  const CollectiveCost cost =
      collective_cost(Collective::all_gather, {1.6e9}, placed(cluster, ranks(0, 16)), cluster);
  CHECK(us(cost.duration - cost.latency) == doctest::Approx(15.5 / 16 * 1.6e9 / 400e3));
}

TEST_CASE("all-reduce: trees win small, the ring wins large") {
  const Cluster cluster = dgx_h100(32);
  const GroupPlacement group = placed(cluster, ranks(0, 256));
  const CollectiveCost small = collective_cost(Collective::all_reduce, {1024}, group, cluster);
  CHECK(small.algorithm == "tree");
  // Seven hops along the chain and five levels of 6.5 us, both ways.
  CHECK(us(small.latency) == doctest::Approx(0.75 * (20 + 2 * (7 * 2 + 5 * 6.5))));
  CHECK(small.protocol == "LL");
  CHECK(collective_cost(Collective::all_reduce, {4e9}, group, cluster).algorithm == "ring");
  CHECK(collective_cost(Collective::all_gather, {1024}, group, cluster).algorithm == "ring");
}

// Two ranks: 16 of 32 channels of 20 GB/s = 320; 8 ranks: 4 = 80, until 16 MiB a channel are full.
TEST_CASE("send_recv inside a domain has the channels of its communicator") {
  const Cluster cluster = dgx_h100(1);
  const GroupPlacement pair = placed(cluster, ranks(0, 2)), eight = placed(cluster, ranks(0, 8));
  const auto moved = [&](const GroupPlacement& group, double bytes) {
    const CollectiveCost cost = collective_cost(Collective::send_recv, {bytes}, group, cluster);
    CHECK(us(cost.latency) == doctest::Approx(0.8 * 20 + 2));
    return us(cost.duration - cost.latency);
  };
  CHECK(moved(pair, 32e6) == doctest::Approx(100));
  CHECK(moved(placed(cluster, ranks(0, 3)), 32e6) == doctest::Approx(200));  // as four ranks
  CHECK(moved(eight, 32e6) == doctest::Approx(400));
  const double full = 4 * 16 * 1024 * 1024;
  CHECK(moved(eight, full) == doctest::Approx(full / 80e3));
  CHECK(moved(eight, 2 * full) == doctest::Approx(full / 80e3));  // twice the channels
  CHECK(moved(eight, 16e9) == doctest::Approx(16e9 / 400e3));     // the port
}

// Two of 20 GB/s carry 40; of eight, eight members get one each, until its 16 MiB are full.
TEST_CASE("send_recv inside a domain has no more channels than NCCL_MAX_CTAS") {
  Cluster cluster = dgx_h100(1);
  const auto cost = [&](int most, int members, double bytes) {
    cluster.nccl.max_ctas = most;
    return collective_cost(Collective::send_recv, {bytes}, placed(cluster, ranks(0, members)),
                           cluster);
  };
  CHECK(gbps(cost(2, 2, 16e9).nvlink_rate) == doctest::Approx(40));
  CHECK(cost(2, 2, 16e9).sms == 2);
  CHECK(cost(8, 8, 1e6).sms == 1);
  CHECK(gbps(cost(8, 8, 16e9).nvlink_rate) == doctest::Approx(160));
  CHECK(cost(64, 8, 16e9).duration == cost(0, 8, 16e9).duration);
  // Between domains a number of channels a peer does not exceed it either.
  Cluster two = dgx_h100(2);
  two.nccl.channels_per_net_peer = 2;
  two.nccl.max_ctas = 1;
  CHECK(collective_cost(Collective::send_recv, {1e9}, placed(two, {0, 8}), two).channels == 1);
}

TEST_CASE("send_recv between domains, and a peer copy") {
  const Cluster cluster = dgx_h100(2);
  const CollectiveCost across =
      collective_cost(Collective::send_recv, {40e6}, placed(cluster, {0, 8}), cluster);
  // A pair reaches 0.9 of what a ring does.
  CHECK(us(across.duration) == doctest::Approx(0.8 * 20 + 6.5 + 1000 / 0.9));
  CHECK(gbps(across.nic_rate) == doctest::Approx(36));
  const CollectiveCost copy =
      collective_cost(Collective::peer_copy, {40e6}, placed(cluster, {0, 1}), cluster);
  CHECK(us(copy.duration) == doctest::Approx(2 + 100));
}

TEST_CASE("a group of one costs nothing; no bytes cost the latency") {
  const Cluster cluster = dgx_h100(1);
  CHECK(collective_cost(Collective::all_reduce, {1e9}, placed(cluster, {3}), cluster).duration ==
        Seconds{});
  const CollectiveCost empty =
      collective_cost(Collective::all_gather, {}, placed(cluster, ranks(0, 8)), cluster);
  CHECK(us(empty.duration) == doctest::Approx(0.75 * (20 + 14)));
  CHECK(empty.nvlink_rate.value == 0);
}

namespace {

/// Rate of a send/recv pair in a communicator of `gpus` over `nodes` nodes with 50 GB/s NICs.
double pair_gbps(int nodes, int per_node, int version, int channels = 0) {
  Cluster cluster = dgx_h100(nodes);
  cluster.nic_efficiency = 0.95;
  cluster.nccl.version = version;
  cluster.nccl.channels_per_net_peer = channels;
  std::vector<int> gpus;
  for (int node = 0; node < nodes; ++node)
    for (int i = 0; i < per_node; ++i) gpus.push_back(node * 8 + i);
  return gbps(
      collective_cost(Collective::send_recv, {1e9}, placed(cluster, gpus), cluster).nic_rate);
}

}  // namespace

// nccl-tests sendrecv, NCCL 2.29: Together AI B200 with NDR 42-44, 42-44, 26, 14.5 GB/s; xxrjun
// H100 39.5-43 in 2 nodes, 25 in 10 nodes of 1, 2 and 4 GPUs, 15.2 of 8. NCCL 2.28: 34, 34, 17, 17.
TEST_CASE("send_recv: the cliff of channels per peer") {
  struct Cliff {
    int nodes, per_node;
    double measured;
  };
  const Cliff cliffs[] = {{2, 8, 42.6}, {4, 8, 43.3},  {8, 8, 26.0},  {16, 8, 14.6}, {64, 8, 15.0},
                          {2, 1, 39.6}, {10, 1, 24.9}, {10, 2, 25.2}, {10, 4, 26.0}, {10, 8, 15.2}};
  for (const Cliff& cliff : cliffs) {
    CAPTURE(cliff.nodes);
    CAPTURE(cliff.per_node);
    CHECK(pair_gbps(cliff.nodes, cliff.per_node, 22907) ==
          doctest::Approx(cliff.measured).epsilon(0.12));
  }
  for (const auto& [nodes, measured] : {std::pair{2, 34.2}, {4, 34.1}, {8, 17.2}, {64, 17.2}})
    CHECK(pair_gbps(nodes, 8, 22809) == doctest::Approx(measured).epsilon(0.12));
  // Not said: the newest rules. NCCL_NCHANNELS_PER_NET_PEER skips the halving.
  CHECK(pair_gbps(64, 8, 0) == pair_gbps(64, 8, 22907));
  CHECK(pair_gbps(64, 8, 0, 2) == doctest::Approx(2 * 13.8));
}

TEST_CASE("environment: algorithms, protocols and channels") {
  Cluster cluster = with_switches(1);
  const GroupPlacement eight = placed(cluster, ranks(0, 8));
  const auto cost = [&](Collective op, double bytes) {
    return collective_cost(op, {bytes}, eight, cluster);
  };
  CHECK(cost(Collective::all_reduce, 1e9).algorithm == "nvls");
  CHECK(cost(Collective::all_reduce, 1e9).sms == 16);
  CHECK(cost(Collective::all_gather, 1e9).algorithm == "ring");
  CHECK(cost(Collective::all_gather, 1e9).protocol == "Simple");
  CHECK(cost(Collective::all_gather, 4096).protocol == "LL");
  cluster.nccl.nvls = false;
  CHECK(cost(Collective::all_reduce, 1e9).algorithm == "ring");
  CHECK(cost(Collective::all_reduce, 1e9).sms == 24);
  // Two thirds of the channels carry two thirds of the bytes.
  const Seconds whole = cost(Collective::all_gather, 64e9).duration;
  cluster.nccl.max_ctas = 16;
  CHECK(cost(Collective::all_gather, 64e9).sms == 16);
  CHECK(cost(Collective::all_gather, 64e9).duration / whole == doctest::Approx(1.5).epsilon(0.01));
  cluster.nccl = {};
  cluster.nccl.protocols.fill(name_bit(nccl_protocols, "ll"));
  CHECK(cost(Collective::all_gather, 64e9).protocol == "LL");
  CHECK(cost(Collective::all_gather, 64e9).duration / whole == doctest::Approx(2).epsilon(0.01));
  cluster.nccl = {};
  cluster.nccl.zero_ctas = true;
  CHECK(cost(Collective::all_gather, 1e9).algorithm == "copy_engine");
  CHECK(cost(Collective::all_gather, 1e9).sms == 0);
  CHECK(cost(Collective::all_reduce, 1e9).algorithm == "nvls");
  // Named for another function, NVLS is not asked for here.
  cluster.nccl = {};
  cluster.nccl.algorithms[1] = name_bit(nccl_algorithms, "ring");
  for (const double bytes : {4096.0, 1e6, 1e9})
    CHECK(cost(Collective::reduce_scatter, bytes).algorithm == "ring");
  // What cannot run here falls back on the ring.
  cluster.nccl = {};
  cluster.nccl.algorithms.fill(name_bit(nccl_algorithms, "pat"));
  CHECK(cost(Collective::all_gather, 1e9).algorithm == "ring");
}

TEST_CASE("SHARP only where it is enabled, PAT for one rank a node and few bytes") {
  Cluster cluster = with_switches(64);
  const GroupPlacement all = placed(cluster, ranks(0, 64)), rail = placed(cluster, ranks(0, 64, 8));
  CHECK(collective_cost(Collective::all_reduce, {8e9}, all, cluster).algorithm == "collnet");
  cluster.nccl.collnet = false;
  CHECK(collective_cost(Collective::all_reduce, {8e9}, all, cluster).algorithm == "ring");
  CHECK(collective_cost(Collective::all_gather, {1e5}, rail, cluster).algorithm == "pat");
  CHECK(collective_cost(Collective::all_gather, {1e9}, rail, cluster).algorithm == "ring");
  CHECK(collective_cost(Collective::all_gather, {1e5}, all, cluster).algorithm == "ring");
  cluster.nccl.version = 21805;  // PAT came with 2.23
  CHECK(collective_cost(Collective::all_gather, {1e5}, rail, cluster).algorithm == "ring");
}

// Eight members on 400 GB/s ports: 7/8 of what each sends goes through each.
TEST_CASE("all-to-all and broadcast") {
  const Cluster cluster = dgx_h100(2);
  const CollectiveCost exchange =
      collective_cost(Collective::all_to_all, {8e9}, placed(cluster, ranks(0, 8)), cluster);
  CHECK(exchange.algorithm == "direct");
  CHECK(exchange.wire_bytes.value == doctest::Approx(7e9));
  CHECK(us(exchange.duration - exchange.latency) == doctest::Approx(7.5e9 / (0.97 * 400e3)));
  // Over two nodes half of it leaves through the member's own NIC.
  const CollectiveCost across =
      collective_cost(Collective::all_to_all, {8e9}, placed(cluster, ranks(0, 16)), cluster);
  CHECK(us(across.duration - across.latency) == doctest::Approx(4e9 / (0.96 * 40e3)));
  const CollectiveCost spread =
      collective_cost(Collective::broadcast, {8e9}, placed(cluster, ranks(0, 8)), cluster);
  CHECK(us(spread.duration - spread.latency) == doctest::Approx(7.5 / 7 * 8e9 / 400e3));
}
