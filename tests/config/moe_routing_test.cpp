// costs.moe_routing: how tokens spread over experts, and the loads of EP ranks.
#include "sim/config/moe_routing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "sim/base/error.h"
#include "sim/config/read.h"

using namespace stepsim;

namespace {

MoeRouting zipf(double exponent) { return {.kind = MoeRouting::Kind::zipf, .exponent = exponent}; }

double mean(const RoutingLoad& load) {
  return std::accumulate(load.by_rank.begin(), load.by_rank.end(), 0.0) /
         static_cast<double>(load.by_rank.size());
}

/// Mixtral 8x7B (8 experts, 2 a token) with EP 4 on one H100 node.
Scenario mixtral(const std::string& routing, const std::string& file = "x.json") {
  return read_scenario_text(
      R"({"cluster": {"system": "dgx-h100", "nodes": 1},
          "model": {"hf_config": "mixtral-8x7b", "expert_model_parallel_size": 4},
          "dataset": {"seq_length": 4096}, "train": {"global_batch_size": 8, "micro_batch_size": 1},
          "costs": {"moe_routing": )" +
          routing + "}}",
      file, {}, "", find_data(), Strictness::collect);
}

std::string routing_refusal(const std::string& routing, const std::string& file = "x.json") {
  try {
    mixtral(routing, file);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("balanced, zipf 0 and equal counts give every rank the mean") {
  for (const MoeRouting& routing : {MoeRouting{}, zipf(0),
                                    MoeRouting{.kind = MoeRouting::Kind::histogram,
                                    .histogram = {std::vector<double>(64, 3)}}}) {
    const RoutingLoad load = routing_load(routing, 64, 8, 6);
    REQUIRE(load.by_rank.size() == 8);
    for (const double rank : load.by_rank) CHECK(rank == doctest::Approx(1));
    CHECK(load.max == doctest::Approx(1));
  }
  CHECK(routing_load(MoeRouting{}, 64, 8, 6).max == 1);
}

TEST_CASE("zipf, one expert a token of two: e^-L and e^-L/2 by hand") {
  // s = 1: popularities 1 and 1/2. (1 - x^2) + (1 - x) = 1 with x = e^(-L/2): x = (sqrt 5 - 1) / 2,
  // so the experts are in 1 - x^2 = x = 0.618 and 1 - x = 0.382 of the choices.
  const RoutingLoad load = routing_load(zipf(1), 2, 2, 1);
  CHECK(load.by_rank[0] == doctest::Approx(std::sqrt(5.0) - 1));
  CHECK(load.by_rank[1] == doctest::Approx(3 - std::sqrt(5.0)));
  CHECK(load.max == load.by_rank[0]);
}

TEST_CASE(
    "zipf: the mean is 1, a steeper law is more uneven, more ranks too, and no rank has more "
    "than its experts can take") {
  for (const int ep : {1, 2, 8, 64})
    for (const int k : {1, 2, 8}) {
      double before = 1 - 1e-12;
      for (const double s : {0.0, 0.3, 0.6, 1.0, 1.5, 3.0}) {
        CAPTURE(ep);
        CAPTURE(k);
        CAPTURE(s);
        const RoutingLoad load = routing_load(zipf(s), 64, ep, k);
        CHECK(mean(load) == doctest::Approx(1));
        // Steeper ones fill the first experts of every rank.
        if (s <= 1) CHECK(load.max >= before * (1 - 1e-9));
        CHECK(load.max <= ep * std::min(1.0, 64.0 / ep / k) * (1 + 1e-9));
        CHECK(load.max == load.by_rank[0]);
        before = load.max;
      }
      CHECK(routing_load(zipf(1), 64, ep, 64).max == doctest::Approx(1));  // all experts
    }
  CHECK(routing_load(zipf(1), 64, 64, 2).max > routing_load(zipf(1), 64, 8, 2).max);
}

TEST_CASE("hot ranks: two of eight with half of all tokens have twice the mean") {
  const MoeRouting routing{.kind = MoeRouting::Kind::hot_ranks, .hot_ranks = 2, .hot_share = 0.5};
  const RoutingLoad load = routing_load(routing, 64, 8, 2);
  CHECK(load.by_rank[0] == doctest::Approx(2));
  CHECK(load.by_rank[1] == doctest::Approx(2));
  CHECK(load.by_rank[7] == doctest::Approx(2.0 / 3));
  CHECK(load.max == doctest::Approx(2));
  CHECK(mean(load) == doctest::Approx(1));
}

TEST_CASE("histogram: ranks hold consecutive experts; a load for each sample and for all") {
  const MoeRouting routing{.kind = MoeRouting::Kind::histogram,
                           .histogram = {{4, 0, 0, 0}, {0, 1, 2, 1}}};
  const std::vector<RoutingLoad> each = routing_loads(routing, 4, 2, 1);
  REQUIRE(each.size() == 2);
  CHECK(each[0].by_rank == std::vector<double>{2, 0});
  CHECK(each[1].by_rank == std::vector<double>{0.5, 1.5});
  CHECK(routing_load(routing, 4, 2, 1).by_rank == std::vector<double>{1.25, 0.75});
}

// A draw says which expert lies where: no token is lost, and on average no rank is favoured.
TEST_CASE("samples of routing are placements of the same experts") {
  MoeRouting routing = zipf(1.2);
  const RoutingLoad expected = routing_load(routing, 8, 4, 2);
  routing.draws = 400;
  CHECK(routing_load(routing, 8, 4, 2).by_rank == expected.by_rank);
  const std::vector<RoutingLoad> draws = routing_loads(routing, 8, 4, 2);
  REQUIRE(draws.size() == 400);
  std::vector<double> sums(4, 0);
  for (const RoutingLoad& load : draws) {
    CHECK(mean(load) == doctest::Approx(1).epsilon(1e-12));
    CHECK(load.max == *std::max_element(load.by_rank.begin(), load.by_rank.end()));
    for (size_t r = 0; r < 4; ++r) sums[r] += load.by_rank[r];
  }
  // The spread of one rank's load is below 0.5, that of a mean of 400 below 0.025.
  for (const double sum : sums) CHECK(std::abs(sum / 400 - 1) < 4 * 0.025);
  const auto first = [&](uint64_t seed) {
    routing.seed = seed;
    return routing_loads(routing, 8, 4, 2)[0].by_rank;
  };
  CHECK(first(7) == first(7));
  CHECK(first(7) != first(8));
}

TEST_CASE("samples of hot ranks: as many are hot, others") {
  MoeRouting routing{.kind = MoeRouting::Kind::hot_ranks, .hot_ranks = 1, .hot_share = 0.5};
  routing.draws = 64;
  std::vector<int> hot(4, 0);
  for (const RoutingLoad& load : routing_loads(routing, 8, 4, 2)) {
    std::vector<double> sorted = load.by_rank;
    std::sort(sorted.begin(), sorted.end());
    for (size_t r = 0; r < 3; ++r) CHECK(sorted[r] == doctest::Approx(0.5 / 3 * 4));
    CHECK(sorted[3] == doctest::Approx(2));
    for (size_t r = 0; r < 4; ++r) hot[r] += load.by_rank[r] > 1;
  }
  for (const int times : hot) CHECK(times > 0);
}

TEST_CASE("costs.moe_routing is read, and gives no costs") {
  CHECK(mixtral("\"balanced\"").moe_routing.kind == MoeRouting::Kind::balanced);
  const Scenario s = mixtral(R"({"zipf": 0.8})");
  CHECK(s.moe_routing.exponent == 0.8);
  CHECK(!s.costs);
  const Scenario hot = mixtral(R"({"hot_ranks": {"count": 1, "share": 0.5}})");
  CHECK(hot.moe_routing.hot_ranks == 1);
  CHECK(hot.moe_routing.hot_share == 0.5);
  CHECK(hot.moe_routing.samples() == 1);
  const Scenario drawn = mixtral(R"({"zipf": 0.8, "samples": 5, "seed": 3})");
  CHECK(drawn.moe_routing.samples() == 5);
  CHECK(drawn.moe_routing.seed == 3);
}

TEST_CASE("costs.moe_routing: a histogram beside the scenario, as CSV and as JSON") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "stepsim_moe_routing_test";
  std::filesystem::create_directories(folder);
  const std::string scenario = (folder / "x.json").string();
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
  };
  write("a.csv", "1, 2,3,4,5,6,7,8\r\n8,7,6,5,4,3,2,1\n");
  write("a.json", "[[1,2,3,4,5,6,7,8],[8,7,6,5,4,3,2,1]]");
  write("one.json", "[1,2,3,4,5,6,7,8]");
  write("short.csv", "1,2,3\n");
  write("header.csv", "expert0,expert1\n1,2\n");
  write("none.json", "[[0,0,0,0,0,0,0,0]]");
  write("less.csv", "1,2,3,4,5,6,7,-8\n");
  write("empty.csv", "\n");
  std::string long_file;
  for (int row = 0; row < 1001; ++row) long_file += "1,2,3,4,5,6,7,8\n";
  write("long.csv", long_file);
  const auto rows = [&](const char* name) {
    return mixtral(std::string(R"({"histogram": ")") + name + "\"}", scenario)
        .moe_routing.histogram;
  };
  CHECK(rows("a.csv") == rows("a.json"));
  REQUIRE(rows("a.csv").size() == 2);
  CHECK(rows("a.csv")[1][0] == 8);
  CHECK(rows("one.json").size() == 1);
  const auto refused = [&](const char* name) {
    return routing_refusal(std::string(R"({"histogram": ")") + name + "\"}", scenario);
  };
  CHECK(refused("short.csv").find("must hold one number for each of 8 experts; got 3") !=
        std::string::npos);
  CHECK(refused("header.csv").find("got 'expert0'") != std::string::npos);
  CHECK(refused("none.json").find("none.json#/0: must give a token") != std::string::npos);
  CHECK(refused("less.csv").find("from 0 to 1e15") != std::string::npos);
  CHECK(refused("empty.csv").find("holds no numbers") != std::string::npos);
  CHECK(refused("long.csv").find("at most 1000 samples") != std::string::npos);
  CHECK(!refused("nowhere.csv").empty());
  std::filesystem::remove_all(folder);
}

TEST_CASE("costs.moe_routing: what is refused") {
  const auto has = [](const std::string& routing, const std::string& words) {
    CAPTURE(routing);
    const std::string said = routing_refusal(routing);
    CAPTURE(said);
    CHECK(said.find(words) != std::string::npos);
  };
  has("\"balancd\"", "x.json#/costs/moe_routing: ");
  has("\"balancd\"", "balanced");
  has("7", "x.json#/costs/moe_routing: ");
  has("{}", "must hold one of zipf, hot_ranks and histogram; got 0");
  has(R"({"zipf": 1, "hot_ranks": {}})", "got 2");
  has(R"({"zip": 1})",
      "x.json#/costs/moe_routing/zip: is no way to spread tokens; did you mean 'zipf'?");
  has(R"({"samples": 4})", "must hold one of zipf, hot_ranks and histogram; got 0");
  has(R"({"zipf": 1, "samples": 0})", "x.json#/costs/moe_routing/samples: ");
  has(R"({"zipf": 1, "samples": 1001})", "x.json#/costs/moe_routing/samples: ");
  has(R"({"zipf": 1, "seed": -1})", "x.json#/costs/moe_routing/seed: ");
  has(R"({"histogram": "a.csv", "samples": 4})", "/samples: cannot be combined with histogram");
  has(R"({"zipf": -1})", "x.json#/costs/moe_routing/zipf: must be from 0");
  has(R"({"hot_ranks": {"count": 5, "share": 1}})", "/hot_ranks/count: ");
  has(R"({"hot_ranks": {"count": 1, "share": 0.2}})",
      "must be from 0.25, the even share of 1 of 4");
  // Two experts a token and two on a rank: one rank can take them all; with three a token not.
  CHECK(routing_refusal(R"({"hot_ranks": {"count": 1, "share": 1}})").empty());
  has(R"({"hot_ranks": {"count": 1, "shares": 1}})", "/hot_ranks/share: is missing");
  const std::string given =
      R"({"costs": {"forward_seconds": 1, "backward_seconds": 2, "moe_routing": {"zipf": 1}},
          "model": {"pipeline_model_parallel_size": 2}, "train": {"global_batch_size": 4}})";
  try {
    read_scenario_text(given, "x.json", {}, "", find_data());
    CHECK(false);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("/costs/moe_routing: changes nothing") !=
          std::string::npos);
  }
}
