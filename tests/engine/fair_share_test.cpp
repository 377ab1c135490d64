#include "sim/engine/fair_share.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/support/graph_text.h"
#include "tests/support/oracle_share.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

FairShare all_running(const NamedGraph& g) {
  FairShare share(g.graph, contended_resources(g.graph));
  for (uint32_t f = 0; f < g.graph.flows.size(); ++f) share.join(f, f);
  share.settle();
  return share;
}

}  // namespace

// The worked case of the header.
TEST_CASE("levels close flows in the order of the worked case") {
  for (const auto& [capacity, third] : {std::pair("8", 0.04), std::pair("12", 0.08)}) {
    const NamedGraph g = graph_of("link p 10; link q " + std::string(capacity) + R"(
      one 1 uses p 100 uses q 100
      two 1 uses p 100
      three 1 uses q 100
      four 1 uses p 2)");
    const FairShare share = all_running(g);
    CHECK(share.speed(0) == 0.04);
    CHECK(share.speed(1) == 0.04);
    CHECK(share.speed(2) == third);
    CHECK(share.speed(3) == 1);
  }
}

TEST_CASE("only contended resources count") {
  const NamedGraph g = graph_of(R"(
    link one_stream 10
    link two_streams 10
    link no_streams 10
    link overdrawn 10
    link latency_only 10
    a 1 @x uses one_stream 10 uses two_streams 1
    b 1 @x uses one_stream 10 uses overdrawn 10 x2
    c 1 @y uses two_streams 1
    d 1 uses no_streams 1
    e 1 uses no_streams 1
    f 1 latency 1 uses latency_only 1
    g 1 latency 1 uses latency_only 1)");
  CHECK(contended_resources(g.graph) == std::vector<uint8_t>{0, 1, 1, 1, 0});
}

// A change reaches only flows connected through links that bind.
TEST_CASE("settling reports the flows whose speed changed and no others") {
  const NamedGraph g = graph_of(R"(
    link p 10
    link q 10
    link wide 1000
    a 1 uses p 10 uses wide 10
    b 1 uses p 10 uses wide 10
    c 1 uses q 10 uses wide 10
    d 1 uses q 10 uses wide 10)");
  FairShare share(g.graph, contended_resources(g.graph));
  share.join(0, 0);
  auto changes = share.settle();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].slot == 0);
  CHECK(changes[0].after == 1);
  for (uint32_t f : {2u, 3u}) share.join(f, f);
  changes = share.settle();
  REQUIRE(changes.size() == 2);
  CHECK(std::min(changes[0].slot, changes[1].slot) == 2);
  CHECK(changes[0].before == 1);
  CHECK(changes[0].after == 0.5);
  share.join(1, 1);
  changes = share.settle();
  REQUIRE(changes.size() == 2);
  CHECK(std::max(changes[0].slot, changes[1].slot) == 1);
  share.leave(3);
  changes = share.settle();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].slot == 2);
  CHECK(changes[0].after == 1);
  CHECK(share.settle().empty());
}

// Certificate of max-min fairness, independent of any algorithm (Bertsekas and Gallager 6.5.2): no
// link carries more than it has, and each slowed flow has a full link on which no flow has a higher
// byte rate.
TEST_CASE("every slowed flow has a bottleneck, through any sequence of arrivals and departures") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    const uint32_t links = 2 + below(8), flows = 3 + below(30);
    TaskGraphBuilder builder(0);
    for (uint32_t l = 0; l < links; ++l) builder.add_resource(5.0 + below(50));
    for (uint32_t f = 0; f < flows; ++f) {
      const TaskId task = builder.add_task(1, no_stream, 0);
      std::vector<Claim> claims;
      const auto rate = static_cast<float>(1 + below(30));
      for (uint32_t l = 0; l < links; ++l) {
        if (below(3) == 0)
          claims.push_back({.resource = ResourceId{l}, .rate = rate, .multiplicity = 1 + below(4)});
      }
      builder.set_claims(task, 0, claims);
    }
    const TaskGraph graph = std::move(builder).build();
    FairShare share(graph, contended_resources(graph));
    std::vector<bool> runs(flows, false);
    for (int change = 0; change < 100; ++change) {
      const uint32_t f = below(flows);
      runs[f] ? share.leave(f) : share.join(f, f);
      runs[f] = !runs[f];
      share.settle();
      std::vector<double> used(links, 0), fastest(links, 0);
      std::vector<uint32_t> running;
      const auto each_claim = [&](auto&& visit) {
        for (uint32_t g = 0; g < flows; ++g) {
          if (!runs[g]) continue;
          for (const Claim& claim : graph.claims_of(graph.flows[g])) visit(g, claim);
        }
      };
      each_claim([&](uint32_t g, const Claim& c) {
        used[index(c.resource)] += share.speed(g) * c.rate * c.multiplicity;
        fastest[index(c.resource)] = std::max(fastest[index(c.resource)], share.speed(g) * c.rate);
      });
      std::vector<bool> bottleneck(flows, false);
      each_claim([&](uint32_t g, const Claim& c) {
        const uint32_t l = index(c.resource);
        const bool full = used[l] >= graph.capacities[l] * (1 - 1e-12);
        if (full && share.speed(g) * c.rate >= fastest[l] * (1 - 1e-12)) bottleneck[g] = true;
      });
      for (uint32_t l = 0; l < links; ++l) CHECK(used[l] <= graph.capacities[l] * (1 + 1e-12));
      for (uint32_t g = 0; g < flows; ++g) {
        if (!runs[g]) continue;
        running.push_back(g);
        CHECK((share.speed(g) == 1 || bottleneck[g]));
      }
      const std::vector<double> speeds = oracle_speeds(graph, running);
      for (size_t i = 0; i < running.size(); ++i) {
        CHECK(share.speed(running[i]) == doctest::Approx(speeds[i]).epsilon(1e-12));
      }
    }
  }
}
