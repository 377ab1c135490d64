// Random graphs: the engine against the plain one-heap engine in tests/support.
#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "sim/engine/engine.h"
#include "tests/support/oracle_engine.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// What a random graph is made of.
struct Recipe {
  uint32_t tasks = 60, streams = 6, links = 0, pools = 0, finish_edges = 80, start_edges = 0;
  bool cycles = false;
  bool ties = true;  ///< durations of few distinct values
};

/// A graph as lists, so that the same one can be built in another order.
struct Draft {
  uint32_t streams = 0;
  std::vector<double> durations, latencies, capacities;
  std::vector<StreamId> queues;
  std::vector<uint32_t> pools;
  std::vector<std::vector<Claim>> claims;
  std::vector<std::vector<ProcessorClaim>> processors;
  std::vector<std::pair<uint32_t, uint32_t>> finish, start;
  std::vector<double> lags;

  TaskGraph build(bool reversed = false) const {
    TaskGraphBuilder builder(streams);
    for (double c : capacities) builder.add_resource(c);
    for (uint32_t p : pools) builder.add_pool(p);
    for (size_t t = 0; t < durations.size(); ++t) builder.add_task(durations[t], queues[t], t);
    for (size_t i = 0; i < durations.size(); ++i) {
      const size_t t = reversed ? durations.size() - 1 - i : i;
      if (!claims[t].empty() || !processors[t].empty())
        builder.set_claims(TaskId{static_cast<uint32_t>(t)}, latencies[t],
                           builder.add_claims(claims[t], processors[t]));
    }
    for (size_t i = 0; i < finish.size(); ++i) {
      const auto [from, to] = finish[reversed ? finish.size() - 1 - i : i];
      builder.add_edge(TaskId{from}, TaskId{to});
    }
    for (size_t i = 0; i < start.size(); ++i) {
      const size_t e = reversed ? start.size() - 1 - i : i;
      builder.add_start_edge(TaskId{start[e].first}, TaskId{start[e].second}, lags[e]);
    }
    return std::move(builder).build();
  }
};

/// Runners, holders and pairs of tasks that begin and end a hold, a third of the tasks each.
void draw_processors(Draft& draft, uint32_t pools, const std::function<uint32_t(uint32_t)>& below) {
  using Role = ProcessorClaim::Role;
  const auto tasks = static_cast<uint32_t>(draft.durations.size());
  for (uint32_t p = 0; p < pools; ++p) draft.pools.push_back(4 + below(9));
  std::vector<uint32_t> open;  // tasks that took and have nobody to give back
  for (uint32_t t = 0; t < tasks; ++t) {
    const uint32_t pool = below(pools);
    ProcessorClaim claim{.pool = PoolId{pool}, .yields = below(2) == 0};
    switch (below(5)) {
      case 0:
      case 1:
        claim.count = draft.pools[pool] - below(3);
        claim.blocks = below(3) * below(20);
        claim.persistent = below(4) == 0;
        claim.saturating = below(3) == 0 ? 1 + below(claim.count) : 0;
        break;
      case 2:
        claim.role = Role::hold;
        claim.count = 1 + below(5);
        break;
      case 3:
        claim.role = Role::take;
        claim.count = 1 + below(5);
        draft.durations[t] = draft.latencies[t] = 0;
        draft.claims[t].clear();
        open.push_back(t);
        break;
      default:
        continue;
    }
    draft.processors[t].push_back(claim);
  }
  for (uint32_t t = 0; t < tasks; ++t) {
    if (!draft.processors[t].empty() || open.empty() || open.front() > t) continue;
    ProcessorClaim claim = draft.processors[open.front()][0];
    claim.role = Role::give;
    draft.processors[t].push_back(claim);
    draft.finish.emplace_back(open.front(), t);
    open.erase(open.begin());
  }
}

Draft draw(uint32_t seed, const Recipe& recipe) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  // Few distinct values, so that ties are common; a third is no binary fraction.
  const auto seconds = [&] { return recipe.ties ? below(5) / 3.0 : below(1000003) * 1e-6; };
  Draft draft;
  draft.streams = recipe.streams;
  for (uint32_t l = 0; l < recipe.links; ++l) draft.capacities.push_back(4.0 + below(8));
  for (uint32_t t = 0; t < recipe.tasks; ++t) {
    draft.durations.push_back(seconds());
    draft.queues.push_back(below(5) == 0 ? no_stream : StreamId{below(recipe.streams)});
    draft.claims.emplace_back();
    draft.processors.emplace_back();
    draft.latencies.push_back(below(2) == 0 ? 0 : draft.durations.back() * below(5) / 4);
    if (recipe.links == 0 || below(3) == 0) continue;
    const auto rate = static_cast<float>(1 + below(10));
    for (uint32_t l = 0; l < recipe.links; ++l) {
      if (below(recipe.links) > 1) continue;
      const float own = below(4) == 0 ? static_cast<float>(1 + below(10)) : rate;
      draft.claims.back().push_back(
          {.resource = ResourceId{l}, .rate = own, .multiplicity = 1 + below(3)});
    }
  }
  if (recipe.pools > 0) draw_processors(draft, recipe.pools, below);
  const auto edge = [&] {
    const uint32_t a = below(recipe.tasks), b = below(recipe.tasks);
    return recipe.cycles && below(20) == 0 ? std::pair(std::max(a, b), std::min(a, b))
                                           : std::pair(std::min(a, b), std::max(a, b));
  };
  for (uint32_t e = 0; e < recipe.finish_edges; ++e) {
    const auto pair = edge();
    if (pair.first != pair.second) draft.finish.push_back(pair);
  }
  for (uint32_t e = 0; e < recipe.start_edges; ++e) {
    const auto pair = edge();
    if (pair.first == pair.second) continue;
    draft.start.push_back(pair);
    draft.lags.push_back(seconds());
  }
  return draft;
}

void check_near(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t t = 0; t < got.size(); ++t) {
    CAPTURE(t);
    CHECK(std::abs(got[t] - expected[t]) <= 1e-12 * std::max(1.0, expected[t]));
  }
}

}  // namespace

// Law: eager = oracle, to the bit, bindings included.
TEST_CASE("fixed graphs resolve eagerly to what one heap in time order finds") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const TaskGraph graph =
        draw(seed, {.tasks = 5 + seed, .finish_edges = 2 * seed, .start_edges = seed / 2}).build();
    const OracleResult oracle = run_oracle(graph);
    const Timeline eager = std::get<Timeline>(run(graph));
    REQUIRE(oracle.unfinished == 0);
    CHECK(eager.start_seconds == oracle.timeline.start_seconds);
    CHECK(eager.finish_seconds == oracle.timeline.finish_seconds);
    CHECK(eager.binding == oracle.timeline.binding);
    CHECK(eager.makespan_seconds == oracle.timeline.makespan_seconds);
  }
}

TEST_CASE("flows that share links finish when the oracle says") {
  size_t slowed = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const TaskGraph graph = draw(seed, {.tasks = 10 + seed / 2,
                                        .links = 1 + seed % 7,
                                        .finish_edges = seed / 2,
                                        .start_edges = seed / 4})
                                .build();
    const OracleResult oracle = run_oracle(graph);
    const Timeline got = std::get<Timeline>(run(graph));
    REQUIRE(oracle.unfinished == 0);
    check_near(got.start_seconds, oracle.timeline.start_seconds);
    check_near(got.finish_seconds, oracle.timeline.finish_seconds);
    const Timeline free = std::get<Timeline>(run(graph, {.sharing = false}));
    CHECK(free.finish_seconds == run_oracle(graph, false).timeline.finish_seconds);
    slowed += got.makespan_seconds > free.makespan_seconds;
  }
  CHECK(slowed > 200);  // the comparison was about something
}

// Law: eager = oracle on 10,000 graphs with shared links and processors, to 1e-9 (here 1e-12).
TEST_CASE("holders and runners of processors finish when the oracle says") {
  size_t slowed = 0;
  const uint32_t graphs = std::getenv("STEPSIM_QUICK") ? 1000 : 10000;
  for (uint32_t seed = 0; seed < graphs; ++seed) {
    CAPTURE(seed);
    const TaskGraph graph = draw(seed, {.tasks = 8 + seed % 40,
                                        .links = seed % 4,
                                        .pools = 1 + seed % 3,
                                        .finish_edges = seed % 30,
                                        .start_edges = seed % 13,
                                        .ties = false})
                                .build();
    const OracleResult oracle = run_oracle(graph);
    const Timeline got = std::get<Timeline>(run(graph));
    REQUIRE(oracle.unfinished == 0);
    check_near(got.start_seconds, oracle.timeline.start_seconds);
    check_near(got.finish_seconds, oracle.timeline.finish_seconds);
    const Timeline free = std::get<Timeline>(run(graph, {.sharing = false}));
    slowed += got.makespan_seconds > free.makespan_seconds;
  }
  CHECK(slowed > graphs / 2);
}

// Law: the result is a function of the graph; the order in which edges and claims were added is no
// part of it.
TEST_CASE("the order of edges changes not one bit") {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const Draft draft =
        draw(seed, {.tasks = 120, .links = 5, .pools = 2, .finish_edges = 150, .start_edges = 40});
    const TaskGraph forth = draft.build(), back = draft.build(true);
    const Timeline a = std::get<Timeline>(run(forth)), b = std::get<Timeline>(run(back));
    CHECK(a.start_seconds == b.start_seconds);
    CHECK(a.finish_seconds == b.finish_seconds);
    CHECK(a.binding == b.binding);
  }
}

// Law: a graph that cannot finish gives a cycle of real edges.
TEST_CASE("the engine reports a cycle when and only when the oracle gets stuck") {
  size_t stuck = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Draft draft =
        draw(seed, {.tasks = 30, .links = 2, .finish_edges = 25, .start_edges = 5, .cycles = true});
    const TaskGraph graph = draft.build();
    const auto result = run(graph);
    const bool deadlock = std::holds_alternative<Deadlock>(result);
    CHECK(deadlock == (run_oracle(graph).unfinished > 0));
    if (!deadlock) continue;
    ++stuck;
    const std::vector<TaskId>& cycle = std::get<Deadlock>(result).cycle;
    REQUIRE(!cycle.empty());
    for (size_t i = 0; i < cycle.size(); ++i) {
      const uint32_t waits = index(cycle[i]), for_task = index(cycle[(i + 1) % cycle.size()]);
      const auto has = [&](std::span<const uint32_t> offsets, std::span<const uint32_t> targets) {
        return !offsets.empty() && std::count(targets.begin() + offsets[for_task],
                                              targets.begin() + offsets[for_task + 1], waits) > 0;
      };
      CHECK((has(graph.finish_offsets, graph.finish_targets) ||
             has(graph.start_offsets, graph.start_targets)));
    }
  }
  CHECK(stuck > 50);
  CHECK(stuck < 200);
}
