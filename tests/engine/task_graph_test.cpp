#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "sim/engine/task_graph_builder.h"
#include "tests/support/graph_text.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

std::vector<uint32_t> row(std::span<const uint32_t> offsets, std::span<const uint32_t> targets,
                          uint32_t task) {
  std::vector<uint32_t> sorted(targets.begin() + offsets[task],
                               targets.begin() + offsets[task + 1]);
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

TEST_CASE("edges are found under their source and counted under their target") {
  TaskGraphBuilder builder(2);
  const TaskId a = builder.add_task(1, StreamId{0}, 10), b = builder.add_task(2, StreamId{1}, 11),
               c = builder.add_task(3, StreamId{0}, 12), d = builder.add_task(4, no_stream, 13);
  builder.add_edge(d, a);
  builder.add_edge(a, b);
  builder.add_edge(a, b);
  builder.add_edge(b, d);
  builder.add_start_edge(c, a, 0.5);
  builder.add_start_edge(a, c, 0.25);
  builder.add_start_edge(a, d, 0.75);
  CHECK(builder.tail(StreamId{0}) == c);
  TaskGraph built = std::move(builder).build();
  const TaskGraph graph = std::move(built);  // spans stay valid when the graph moves

  CHECK(graph.task_count() == 4);
  CHECK(row(graph.finish_offsets, graph.finish_targets, 0) == std::vector<uint32_t>{1, 1, 2});
  CHECK(row(graph.finish_offsets, graph.finish_targets, 1) == std::vector<uint32_t>{3});
  CHECK(row(graph.finish_offsets, graph.finish_targets, 2).empty());
  CHECK(row(graph.finish_offsets, graph.finish_targets, 3) == std::vector<uint32_t>{0});
  CHECK(row(graph.start_offsets, graph.start_targets, 0) == std::vector<uint32_t>{2, 3});
  CHECK(row(graph.start_offsets, graph.start_targets, 2) == std::vector<uint32_t>{0});
  CHECK(std::vector<double>(graph.start_lags_seconds.begin(), graph.start_lags_seconds.end()) ==
        std::vector<double>{0.25, 0.75, 0.5});
  CHECK(std::vector<uint32_t>(graph.predecessor_counts.begin(), graph.predecessor_counts.end()) ==
        std::vector<uint32_t>{2, 2, 2, 2});
  CHECK(graph.labels[2] == 12);
  CHECK(graph.streams[3] == no_stream);
  CHECK(graph.durations_seconds[1] == 2);
}

TEST_CASE("without start edges their rows are empty") {
  const NamedGraph g = graph_of("a 1; b 1 after a");
  CHECK(g.graph.start_offsets.empty());
  CHECK(g.graph.start_targets.empty());
  CHECK(g.graph.finish_offsets.size() == 3);
}

TEST_CASE("flows are in task order whatever the order of claims") {
  TaskGraphBuilder builder(0);
  const ResourceId link = builder.add_resource(8);
  const TaskId a = builder.add_task(2, no_stream, 0), b = builder.add_task(2, no_stream, 0);
  const Claim one{.resource = link, .rate = 1},
      three{.resource = link, .rate = 3, .multiplicity = 5};
  builder.set_claims(b, 0.5, std::span(&three, 1));
  builder.set_claims(a, 0, std::span(&one, 1));
  const TaskGraph graph = std::move(builder).build();
  REQUIRE(graph.flows.size() == 2);
  CHECK(graph.flows[0].task == a);
  CHECK(graph.claims_of(graph.flows[0])[0].rate == 1);
  CHECK(graph.flows[1].latency_seconds == 0.5);
  CHECK(graph.claims_of(graph.flows[1])[0].multiplicity == 5);
  CHECK(graph.capacities[index(link)] == 8);
}
