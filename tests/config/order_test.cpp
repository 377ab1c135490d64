// Orders that are spelled out: what breaks one is named, with its partner.
#include "sim/config/order.h"

#include <doctest/doctest.h>

#include <string>

#include "sim/config/read.h"

using namespace stepsim;

namespace {

using Lines = std::vector<const char*>;

/// What is wrong with an order, a line a rank.
std::string problem(const Lines& lines, int microbatches, PipelineShape shape = {}) {
  std::vector<std::vector<OrderEntry>> order;
  for (const char* line : lines) {
    const OrderLine parsed = parse_order_line(line);
    REQUIRE(parsed.problem.empty());
    order.push_back(parsed.entries);
  }
  shape.ranks = static_cast<int>(order.size());
  return order_problem(order, shape, microbatches);
}

std::string unreadable(const char* line) { return parse_order_line(line).problem; }

}  // namespace

TEST_CASE("a line of an order: computations with microbatch and chunk") {
  using enum OrderEntry::Kind;
  const OrderLine line = parse_order_line(" F0 F12.1,\tB0  I3.255 W3.255\r");
  CHECK(line.problem.empty());
  CHECK(line.entries == std::vector<OrderEntry>{{forward, 0, 0},
                                                {forward, 1, 12},
                                                {backward, 0, 0},
                                                {backward_input, 255, 3},
                                                {backward_weight, 255, 3}});
  CHECK(parse_order_line("").entries.empty());
  for (const char* word :
       {"f0", "F", "F-1", "F1.", "F1.x", "F1x", "B1.2.3", "0F", "F99999999999"}) {
    CAPTURE(word);
    CHECK(unreadable(word).starts_with("'" + std::string(word) + "' is no computation"));
  }
}

TEST_CASE("an order that runs") {
  CHECK(problem({"F0 F1 B0 B1", "F0 B0 F1 B1"}, 2).empty());
  CHECK(problem({"F0 F1 I0 W0 B1", "F0 I0 F1 B1 W0"}, 2).empty());
  // Chunk 1 runs up a V: the first rank has the last stage.
  CHECK(problem({"F0.0 F0.1 B0.1 B0.0", "F0.0 F0.1 B0.1 B0.0"}, 1, {Placement::vee, 2, 2}).empty());
  // Two pipelines: the second one's microbatch enters at the last rank.
  CHECK(problem({"F0.0 F1.1 B1.1 B0.0", "F1.1 F0.0 B0.0 B1.1"}, 2, {Placement::two_way, 2, 2})
            .empty());
}

TEST_CASE("each microbatch forward before backward, once on each chunk") {
  CHECK(problem({"B0 F0"}, 1) == "rank 0: B0 stands before F0");
  CHECK(problem({"F0 W0 I0"}, 1) == "rank 0: W0 stands before I0");
  CHECK(problem({"F0 F0 B0"}, 1) == "rank 0: F0 runs twice");
  CHECK(problem({"F0 B0 B0"}, 1) == "rank 0: B0 runs a backward that has run");
  CHECK(problem({"F0 B0 I0"}, 1) == "rank 0: I0 runs a backward that has run");
  CHECK(problem({"F0 B0 W0"}, 1) == "rank 0: W0 runs a weight gradient that has run");
  CHECK(problem({"F0 B0", "F0 B0"}, 2) == "rank 0: F1 is missing");
  CHECK(problem({"F0 B0", "F0"}, 1) == "rank 1: B0 is missing");
  CHECK(problem({"F0 I0"}, 1) == "rank 0: W0 is missing");
  CHECK(problem({"F0 F2 B0 B2"}, 2) ==
        "rank 0: F2 names no microbatch of its chunk; expected 0 to 1");
  CHECK(problem({"F0 B0 F0.1 B0.1"}, 1) == "rank 0: F0.1 names chunk 1; a rank has 1");
  CHECK(problem({"F0.0 F1.0 B0.0 B1.0", "F1.1 F0.0 B0.0 B1.1"}, 2, {Placement::two_way, 2, 2}) ==
        "rank 0: F1.0 names no microbatch of its chunk; expected 0 to 0");
}

TEST_CASE("an order that deadlocks is named with the pair that waits for each other") {
  // Rank 0 wants the gradient of 0 before it sends 1; rank 1 wants the input of 1 first.
  CHECK(problem({"F0 B0 F1 B1", "F0 F1 B0 B1"}, 2) ==
        "deadlocks: B0 of rank 0 waits for B0 of rank 1, which stands behind F1, which waits too");
  // Different orders of microbatches on neighbours.
  CHECK(problem({"F0 B0 F1 B1", "F1 B1 F0 B0"}, 2).starts_with("deadlocks: "));
  // Tightness: one place apart it runs.
  CHECK(problem({"F0 F1 B0 B1", "F0 F1 B0 B1"}, 2).empty());
  // A V turns on one rank: it waits for itself.
  CHECK(problem({"F0.1 F0.0 B0.0 B0.1"}, 1, {Placement::vee, 1, 2}) ==
        "deadlocks: F0.1 of rank 0 waits for F0.0 of rank 0, which stands behind F0.1");
}

TEST_CASE("an order in a scenario, as text or as a list of lines") {
  const auto read = [](const std::string& order) {
    return read_scenario_text(
        R"({"model": {"pipeline_model_parallel_size": 2}, "train": {"global_batch_size": 1, "micro_batch_size": 1}, "costs": {"forward_seconds": 1, "backward_seconds": 2}, "pipeline": {"order": )" +
            order + "}}",
        "x.json", {}, "", find_data());
  };
  const Scenario text = read(R"("F0 B0\nF0 B0\n")"), list = read(R"(["F0 B0", "F0 B0"])");
  CHECK(text.order.size() == 2);
  CHECK(text.order == list.order);
  CHECK(text.schedule == ScheduleKind::order);
  CHECK_THROWS_WITH_AS(read(R"("F0 I0 W0\nF0 B0")"),
                       doctest::Contains("x.json#/costs/backward_seconds: 'order' runs the halves"),
                       Error);
  CHECK_THROWS_WITH_AS(read(R"("B0 F0\nF0 B0")"),
                       doctest::Contains("x.json#/pipeline/order: rank 0: B0 stands before F0"),
                       Error);
}
