// cluster.faults, slowdown and jitter become one row a rank.
#include "sim/config/faults.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/config/small.h"

using namespace stepsim;

namespace {

/// 32 ranks on 4 nodes of 8.
Faults faults_of(const std::string& list, std::vector<std::string> words = {}) {
  words.push_back("cluster.faults=" + list);
  return small(words).faults;
}

}  // namespace

TEST_CASE("no faults: nothing is told apart") {
  CHECK_FALSE(small({}).faults.any());
  CHECK_FALSE(faults_of("[]").any());
  CHECK_FALSE(faults_of(R"([{"gpu": 3, "compute_factor": 1}])").any());
  CHECK_FALSE(small({"cluster.jitter={\"sigma\": 0}"}).faults.any());
}

TEST_CASE("a fault is its rank's alone; of one place factors multiply and delays add") {
  const Faults f = faults_of(
      R"([{"gpu": 13, "compute_factor": 0.8, "delay_per_backward": "200 ms"},
          {"rank": 13, "compute_factor": 0.5, "delay_per_backward": "0.1 s", "nvlink_factor": 0.25}])");
  REQUIRE(f.ranks.size() == 32);
  CHECK(f.of(13).slowdown == doctest::Approx(2.5));
  CHECK(f.of(13).delay_per_backward.value == doctest::Approx(0.3));
  CHECK(f.of(13).nvlink_factor == 0.25);
  for (int rank : {0, 12, 14, 31}) CHECK(f.of(rank) == RankFault{});
}

TEST_CASE("a GPU's number is its place in the system, whatever rank runs on it") {
  // Node 2 holds ranks 0 to 7.
  const Faults f = faults_of(R"([{"gpu": 17, "nic_factor": 0.5}])", {"cluster.hosts=[2,0,1,3]"});
  CHECK(f.of(1).nic_factor == 0.5);
  CHECK(f.of(17) == RankFault{});
}

TEST_CASE("a NIC that is gone shares the nearest one left") {
  // 8 NICs for 8 GPUs: NIC 3 gone, GPU 3 goes through NIC 2 (nearest, the lower of two), each half.
  const Faults f = faults_of(R"([{"nic": "node1.nic3", "bandwidth_factor": 0}])");
  for (int rank = 0; rank < 32; ++rank) {
    CAPTURE(rank);
    CHECK(f.of(rank).nic_factor == (rank == 10 || rank == 11 ? 0.5 : 1.0));
  }
  const Faults half = faults_of(R"([{"nic": "node1.nic3", "bandwidth_factor": 0.5}])");
  CHECK(half.of(11).nic_factor == 0.5);
  CHECK(half.of(10).nic_factor == 1);
}

TEST_CASE("slowdown and jitter multiply with what faults say") {
  std::string list = "[";
  for (int r = 0; r < 32; ++r) list += (r == 0 ? "" : ",") + std::string(r == 5 ? "2" : "1");
  const Scenario s = small(
      {"cluster.slowdown=" + list + "]", R"(cluster.faults=[{"rank": 5, "compute_factor": 0.5}])"});
  CHECK(s.faults.of(5).slowdown == 4);
  CHECK(s.faults.of(6).slowdown == 1);
  const Scenario jittery = small({R"(cluster.jitter={"seed": 3, "sigma": 0.02})"});
  const std::vector<double> factors = jitter_factors(3, 0.02, 32);
  for (int r = 0; r < 32; ++r)
    CHECK(jittery.faults.of(r).slowdown == factors[static_cast<size_t>(r)]);
}

// Products of faults: 0.01 x 1 and 0.001 x 1 are the last that are allowed, whatever jitter adds.
TEST_CASE("faults of one place may multiply as far as one alone may go") {
  const auto refused = [](const std::string& list, std::vector<std::string> words = {}) {
    try {
      faults_of(list, std::move(words));
    } catch (const Error& error) {
      return error.pointer();
    }
    return std::string();
  };
  const std::string slow = R"({"gpu": 5, "compute_factor": 0.1})",
                    fast = R"({"gpu": 5, "compute_factor": 10})",
                    port = R"({"nic": "node0.nic5", "bandwidth_factor": 0.1})";
  std::string twice = "cluster.slowdown=[2";
  for (int r = 1; r < 32; ++r) twice += ",2";
  twice += "]";
  CHECK(refused("[" + slow + "," + slow + "]").empty());
  CHECK(refused("[" + fast + "," + fast + "]").empty());
  CHECK(refused("[" + port + "," + port + "," + port + "]").empty());
  CHECK(refused("[" + slow + "," + slow + R"(,{"gpu": 5, "compute_factor": 0.99}])") ==
        "/cluster/faults/2/compute_factor");
  CHECK(refused("[" + fast + "," + fast + R"(,{"gpu": 5, "compute_factor": 1.01}])") ==
        "/cluster/faults/2/compute_factor");
  CHECK(refused("[" + port + "," + port + "," + port + "," + port + "]") ==
        "/cluster/faults/3/bandwidth_factor");
  CHECK(refused("[" + slow + "," + slow + "]", {twice}) == "/cluster/slowdown");
  CHECK(refused("[" + slow + "," + slow + "]", {"cluster.jitter={\"sigma\": 0.1}"}).empty());
  // A NIC that is gone stays gone.
  CHECK(refused(R"([{"nic": "node0.nic5", "bandwidth_factor": 0},)" + port + "]").empty());
  // Links of a free-form graph: by their own name, by the GPU that they end at.
  const std::vector<std::string> ring{"cluster.system=ring-of-8", "cluster.nodes=1", "gbs=8"};
  const std::string link = R"({"link": ["gpu0", "gpu1"], "bandwidth_factor": 0.01})",
                    end = R"({"gpu": 1, "nic_factor": 0.1})";
  CHECK(refused("[" + link + "," + end + "]", ring).empty());
  CHECK(refused("[" + link + "," + end + R"(,{"gpu": 0, "nic_factor": 0.9}])", ring) ==
        "/cluster/faults/2/nic_factor");
  CHECK(refused(R"([{"link": ["gpu2", "gpu1"], "bandwidth_factor": 0},)" + link + "," + link + "]",
                ring) == "/cluster/faults/2/bandwidth_factor");
}

// The engine's bits are in the C++ standard (rand.predef: the 10000th number of seed 5489); twelve
// uniforms less 6 have mean 0 and variance 1.
TEST_CASE("jitter is the seed's alone, of mean 1 and standard deviation sigma") {
  std::mt19937_64 engine;
  engine.discard(9999);
  CHECK(engine() == 9981545732273789042ULL);
  const std::vector<double> many = jitter_factors(1, 0.1, 100'000);
  double sum = 0, squares = 0;
  for (double f : many) {
    sum += f - 1;
    squares += (f - 1) * (f - 1);
    CHECK_FALSE((f < 0.4 || f > 1.6));  // never beyond 6 sigma
  }
  const double n = static_cast<double>(many.size());
  CHECK(std::abs(sum / n) < 0.002);
  CHECK(std::sqrt(squares / n) == doctest::Approx(0.1).epsilon(0.02));
  // More ranks do not change the first ones; another seed does.
  CHECK(jitter_factors(1, 0.1, 3) == std::vector(many.begin(), many.begin() + 3));
  CHECK(jitter_factors(2, 0.1, 3) != jitter_factors(1, 0.1, 3));
}

TEST_CASE("links of a free-form graph: degraded in both directions, removed, cut") {
  const auto ring = [](const std::string& list) {
    return small(
        {"cluster.system=ring-of-8", "cluster.nodes=1", "gbs=8", "cluster.faults=" + list});
  };
  const Scenario sound = ring("[]");
  const Scenario half = ring(R"([{"link": ["gpu1", "gpu0"], "bandwidth_factor": 0.5}])");
  CHECK(half.cluster.links[0].bandwidth.value == sound.cluster.links[0].bandwidth.value / 2);
  CHECK(half.cluster.links[1].bandwidth == sound.cluster.links[1].bandwidth);
  const Scenario gone = ring(R"([{"link": ["gpu0", "gpu1"], "bandwidth_factor": 0}])");
  CHECK(gone.cluster.links.size() == 7);
  CHECK(without_faults(gone).cluster.links.size() == 8);
  CHECK_FALSE(without_faults(gone).faults.any());
  // A ring without two of its links falls apart.
  try {
    ring(R"([{"link": ["gpu0", "gpu1"], "bandwidth_factor": 0},
             {"link": ["gpu4", "gpu3"], "bandwidth_factor": 0}])");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "<command line>#/cluster/faults/1/link: without it no path of links connects gpu1 with "
          "gpu0; all 8 GPUs in use must be connected");
  }
}

TEST_CASE("given costs need no machine for faults of ranks") {
  const auto given = [](const std::string& cluster) {
    return read_scenario_text(R"({"costs": {"forward_seconds": 1, "backward_seconds": 2},
      "model": {"pipeline_model_parallel_size": 4}, "train": {"global_batch_size": 8},
      "cluster": )" + cluster + "}",
                              "g.json", {}, "", find_data());
  };
  CHECK(given(R"({"faults": [{"rank": 3, "compute_factor": 0.5}]})").faults.of(3).slowdown == 2);
  CHECK_THROWS_AS(given(R"({"faults": [{"rank": 4, "compute_factor": 0.5}]})"), Error);
  CHECK_THROWS_AS(given(R"({"faults": [{"rank": 3, "nic_factor": 0.5}]})"), Error);
  CHECK_THROWS_AS(given(R"({"nodes": 2})"), Error);  // of what
}
