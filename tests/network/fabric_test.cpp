#include "sim/network/fabric.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "sim/base/error.h"
#include "sim/network/topology.h"
#include "tests/network/clusters.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// "gpu0 nvswitch0 gpu1"
std::string path(const Route& route) {
  std::string text;
  for (const std::string& vertex : route.vertices) text += (text.empty() ? "" : " ") + vertex;
  return text;
}

}  // namespace

TEST_CASE("inside a node a route is one NVLink hop") {
  const Route route = Fabric(dgx_h100(4)).route(9, 14);
  CHECK(path(route) == "gpu9 nvswitch1 gpu14");
  CHECK(route.inside_domain);
  CHECK(us(route.latency) == doctest::Approx(2));
  CHECK(gbps(route.bandwidth) == doctest::Approx(400));
  CHECK(route.hops == 2);
}

TEST_CASE("same rail, other node of the unit: NIC, leaf, NIC") {
  const Route route = Fabric(dgx_h100(32)).route(3, 8 * 31 + 3);
  CHECK(path(route) == "gpu3 node0.nic3 leaf0.rail3 node31.nic3 gpu251");
  CHECK_FALSE(route.inside_domain);
  CHECK(us(route.latency) == doctest::Approx(6 + 0.5));
  CHECK(gbps(route.bandwidth) == doctest::Approx(40));
}

// Leaf, spine, leaf cost 1.5 us; NVLink to the rail's own GPU and one leaf would cost 2.5 us.
TEST_CASE("across rails a near spine beats NVLink") {
  const Route route = Fabric(dgx_h100(32)).route(3, 12);
  CHECK(path(route) == "gpu3 node0.nic3 leaf0.rail3 spine0 leaf0.rail4 node1.nic4 gpu12");
  CHECK(us(route.latency) == doctest::Approx(6 + 1.5));
}

TEST_CASE("across rails NVLink beats a far spine") {
  Cluster cluster = dgx_h100(32);
  cluster.tiers[1].latency = 5.0_us;
  const Route route = Fabric(cluster).route(3, 12);
  // gpu4 on the way out or gpu11 on the way in: equal, so the vertex that was added first.
  CHECK(path(route) == "gpu3 nvswitch0 gpu4 node0.nic4 leaf0.rail4 node1.nic4 gpu12");
  CHECK(us(route.latency) == doctest::Approx(6 + 0.5 + 2));
  CHECK(gbps(route.bandwidth) == doctest::Approx(40));
}

TEST_CASE("without a spine rails meet only over NVLink") {
  Cluster cluster = dgx_h100(32);
  cluster.tiers.resize(1);
  CHECK(path(Fabric(cluster).route(3, 12)) ==
        "gpu3 nvswitch0 gpu4 node0.nic4 leaf0.rail4 node1.nic4 gpu12");
}

TEST_CASE("without a spine, rails of GPUs that share no NVLink meet in the host") {
  Cluster cluster = dgx_h100(32);
  cluster.tiers.resize(1);
  cluster.nvlink_domain = 4;
  const Fabric fabric(cluster);
  CHECK(path(fabric.route(0, 4)) == "gpu0 node0.host gpu4");
  CHECK(us(fabric.route(0, 4).latency) == doctest::Approx(6));
  CHECK(path(fabric.route(3, 8 + 3)) == "gpu3 node0.nic3 leaf0.rail3 node1.nic3 gpu11");
  CHECK(path(fabric.route(3, 8 + 1)) ==
        "gpu3 nvswitch0 gpu1 node0.nic1 leaf0.rail1 node1.nic1 gpu9");
  const Route across = fabric.route(3, 8 + 4);
  CHECK(path(across) == "gpu3 node0.host gpu4 node0.nic4 leaf0.rail4 node1.nic4 gpu12");
  CHECK(us(across.latency) == doctest::Approx(6 + 6 + 0.5));
  CHECK(gbps(across.bandwidth) == doctest::Approx(40));
}

// Law: whatever the tiers, domains and NICs, any two GPUs of a regular system reach each other.
TEST_CASE("a regular fabric is connected") {
  for (size_t tiers : {0U, 1U, 2U})
    for (int domain : {1, 2, 4, 8, 16})
      for (int nics : {1, 2, 3, 8, 16})
        for (bool rails : {false, true}) {
          Cluster cluster = dgx_h100(4);
          cluster.tiers.resize(tiers);
          cluster.nvlink_domain = domain;
          cluster.nics_per_node = nics;
          cluster.rail_optimised = rails;
          const Fabric fabric(cluster);
          for (int a : {0, 3, 7})
            for (int b = a + 1; b < cluster.gpus; ++b) CHECK(fabric.route(a, b).hops > 0);
        }
}

// Units of 32 nodes, spines of 4 units: node 31 and 32 part at the leaf, 127 and 128 at the spine.
TEST_CASE("the radix decides where two nodes meet") {
  const Fabric fabric(dgx_h100(256));
  CHECK(fabric.route(31 * 8, 30 * 8).hops == 4);
  CHECK(path(fabric.route(31 * 8, 32 * 8)) ==
        "gpu248 node31.nic0 leaf0.rail0 spine0 leaf1.rail0 node32.nic0 gpu256");
  CHECK(fabric.route(127 * 8, 128 * 8).hops == 8);
  CHECK(us(fabric.route(127 * 8, 128 * 8).latency) == doctest::Approx(6 + 2.5));
}

TEST_CASE("NVL72: 18 trays of four share NVLink, the next rack is across the network") {
  const Fabric fabric(gb200_nvl72(36));
  CHECK(fabric.node_of(71) == 17);
  CHECK(fabric.domain_of(71) == 0);
  CHECK(fabric.domain_of(72) == 1);
  CHECK(path(fabric.route(0, 71)) == "gpu0 nvswitch0 gpu71");
  CHECK(gbps(fabric.route(0, 71).bandwidth) == doctest::Approx(800));
  const Route across = fabric.route(0, 72);
  CHECK(path(across) == "gpu0 node0.nic0 leaf0.rail0 node18.nic0 gpu72");
  CHECK(gbps(across.bandwidth) == doctest::Approx(40));
}

// Four GPUs share a NIC of 40 GB/s: 10 each. Leaving a rack divides by 4, leaving a pod by 2 more.
TEST_CASE("oversubscription divides what leaves a tier") {
  const Fabric fabric(ethernet(8));
  CHECK(path(fabric.route(0, 4)) == "gpu0 nvswitch0 gpu4");
  CHECK(path(fabric.route(5, 8)) == "gpu5 node0.nic1 rack0 node1.nic0 gpu8");
  CHECK(gbps(fabric.route(5, 8).bandwidth) == doctest::Approx(10));
  CHECK(gbps(fabric.route(0, 16).bandwidth) == doctest::Approx(2.5));
  CHECK(gbps(fabric.route(0, 32).bandwidth) == doctest::Approx(1.25));
  CHECK(us(fabric.route(0, 32).latency) == doctest::Approx(6 + 5));
}

TEST_CASE("a GPU with two NICs has the bandwidth of both") {
  Cluster cluster = dgx_h100(2);
  cluster.nics_per_node = 16;
  CHECK(gbps(Fabric(cluster).route(0, 8).bandwidth) == doctest::Approx(80));
}

TEST_CASE("a system without tiers is one switch") {
  Cluster cluster = dgx_h100(2);
  cluster.tiers.clear();
  CHECK(us(Fabric(cluster).route(0, 8).latency) == doctest::Approx(6));
}

TEST_CASE("tiers of one name stay apart") {
  Cluster cluster = ethernet(8);
  for (Tier& tier : cluster.tiers) tier.name = "switch";
  CHECK(Fabric(cluster).route(0, 32).hops == 8);
}

TEST_CASE("a free-form ring goes the short way round, over the first of two equals") {
  const Fabric fabric(ring_of_four());
  CHECK(path(fabric.route(0, 3)) == "gpu0 gpu3");
  CHECK(path(fabric.route(0, 2)) == "gpu0 gpu1 gpu2");
  CHECK(path(fabric.route(2, 0)) == "gpu2 gpu1 gpu0");
  CHECK(us(fabric.route(0, 2).latency) == doctest::Approx(2));
  CHECK(fabric.route_class(0, 2) == -1);
}

TEST_CASE("free-form: the narrowest link, NVLink inside the domain") {
  const Fabric fabric(dumbbell());
  CHECK(path(fabric.route(0, 1)) == "gpu0 nvswitch0 gpu1");
  CHECK(path(fabric.route(0, 2)) == "gpu0 left right gpu2");
  CHECK(gbps(fabric.route(0, 2).bandwidth) == doctest::Approx(20));
  CHECK(us(fabric.route(0, 2).latency) == doctest::Approx(5));
}

TEST_CASE("a free-form topology that leaves a GPU out is refused by name") {
  Cluster cluster = ring_of_four();
  cluster.links = {{"gpu0", "gpu1", 10.0_GBps, 1.0_us}, {"gpu2", "gpu3", 10.0_GBps, 1.0_us}};
  try {
    Fabric fabric(cluster);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.file() == "ring.json");
    CHECK(error.pointer() == "/links");
    CHECK(error.message() ==
          "no path of links connects gpu2 with gpu0; all 4 GPUs in use must be connected");
  }
  cluster.gpus = 2;  // gpu2 and gpu3 are then spare
  CHECK_NOTHROW(Fabric{cluster});
}

TEST_CASE("shortest: latency first, then links, then the order in which vertices were added") {
  Topology topology;
  const int a = topology.add_vertex("a"), b = topology.add_vertex("b");
  const int late = topology.add_vertex("z"), early = topology.add_vertex("y");
  topology.add_link(a, early, 1.0_GBps, 1.0_us);
  topology.add_link(early, b, 1.0_GBps, 1.0_us);
  topology.add_link(a, late, 1.0_GBps, 1.0_us);
  topology.add_link(late, b, 1.0_GBps, 1.0_us);
  CHECK(path(topology.shortest(a, b)) == "a z b");  // z is vertex 2, y is 3
  topology.add_link(a, b, 1.0_GBps, 2.0_us);
  CHECK(path(topology.shortest(a, b)) == "a b");
  topology.add_link(a, b, 1.0_GBps, 2.1_us);  // a parallel link that is longer
  CHECK(us(topology.shortest(a, b).latency) == doctest::Approx(2));
}

TEST_CASE("shortest: vertices that no path joins are an error, and no latency wraps") {
  Topology topology;
  const int a = topology.add_vertex("a"), b = topology.add_vertex("b");
  const int c = topology.add_vertex("c");
  topology.add_link(a, b, 1.0_GBps, {1e300});
  CHECK(path(topology.shortest(a, b)) == "a b");
  CHECK_THROWS_WITH_AS(topology.shortest(a, c), "<topology>#: no path of links connects a with c",
                       Error);
}

// Law: two pairs of one class have the same route figures.
TEST_CASE("route classes are honest") {
  for (const Cluster& cluster : {dgx_h100(256), gb200_nvl72(96), ethernet(16)}) {
    const Fabric fabric(cluster);
    std::vector<std::pair<int, Route>> seen;
    for (int a = 0; a < cluster.gpus; a += 37)
      for (int b = a % 5; b < cluster.gpus; b += 41) {
        if (a == b) continue;
        const Route route = fabric.route(a, b);
        const int route_class = fabric.route_class(a, b);
        for (const auto& [other, figures] : seen)
          if (other == route_class) {
            CHECK(route.bandwidth.value == figures.bandwidth.value);
            CHECK(us(route.latency) == doctest::Approx(us(figures.latency)));
            CHECK(route.hops == figures.hops);
            break;
          }
        seen.emplace_back(route_class, route);
      }
  }
}

TEST_CASE("98,304 GPUs cost nothing that is not asked for") {
  const Cluster cluster = dgx_h100(98304 / 8);
  const Fabric fabric(cluster);
  // Six routes: without tables of every pair this takes a moment, with them it would not fit in
  // memory.
  for (int i = 1; i <= 6; ++i) CHECK(fabric.route(i, i * 16000 + i).hops > 4);
}
