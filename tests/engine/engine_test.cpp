#include "sim/engine/engine.h"

#include <doctest/doctest.h>

#include "sim/engine/deadlock.h"
#include "tests/support/graph_text.h"
#include "tests/support/pipeline_graph.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

Timeline finish(const NamedGraph& g) { return std::get<Timeline>(run(g.graph)); }
std::string cycle(const std::string& text) {
  const NamedGraph g = graph_of(text);
  return g.spell(std::get<Deadlock>(run(g.graph)).cycle);
}

}  // namespace

// Law: start = the latest of finish(u) over finish edges and start(u) + lag over start edges; 0
// without any.
TEST_CASE("a task starts when its last predecessor allows it and not before") {
  const NamedGraph g = graph_of(R"(
    a 3
    b 5
    c 1 after a b
    d 1 after a
    e 0 after c d)");
  const Timeline t = finish(g);
  CHECK(t.start_seconds == std::vector<double>{0, 0, 5, 3, 6});
  CHECK(t.finish_seconds == std::vector<double>{3, 5, 6, 4, 6});
  CHECK(t.makespan_seconds == 6);
  CHECK(t.binding[g["a"]] == no_task);
  CHECK(t.binding[g["c"]] == g.ids.at("b"));
  CHECK(t.binding[g["e"]] == g.ids.at("c"));
}

// Tightness: lengthen the predecessor that binds by any amount and the task moves by that amount;
// shorten it below the runner-up and the runner-up holds it.
TEST_CASE("the binding predecessor and no other holds a task back") {
  for (double a : {1.0, 3.9999, 4.0, 4.0001, 9.0}) {
    const NamedGraph g = graph_of("a " + std::to_string(a) + "; b 4; c 1 after a b");
    const Timeline t = finish(g);
    CHECK(t.start_seconds[g["c"]] == std::max(a, 4.0));
    CHECK(t.binding[g["c"]] == g.ids.at(a >= 4 ? "a" : "b"));
  }
}

TEST_CASE("of predecessors that tie, the smallest task binds, whatever the order of edges") {
  for (const char* text : {"a 2; b 2; c 2; d 1 after a b c", "a 2; b 2; c 2; d 1 after c b a"}) {
    const NamedGraph g = graph_of(text);
    CHECK(finish(g).binding[g["d"]] == g.ids.at("a"));
  }
  const NamedGraph zero = graph_of("a 0; b 0; c 1 after b a");
  CHECK(finish(zero).binding[zero["c"]] == zero.ids.at("a"));
}

// Law: a stream runs one task at a time, in the order in which they were added.
TEST_CASE("stream order holds even when a later task could go first") {
  const NamedGraph g = graph_of(R"(
    slow 10
    a 1 @compute after slow
    b 1 @compute
    x 2 @tp
    y 2 @tp after a)");
  const Timeline t = finish(g);
  CHECK(t.start_seconds[g["b"]] == 11);
  CHECK(t.start_seconds[g["x"]] == 0);
  CHECK(t.start_seconds[g["y"]] == 11);
  CHECK(t.binding[g["y"]] == g.ids.at("a"));
}

// Law: start(v) >= start(u) + lag: the finish of u does not matter.
TEST_CASE("start edges count from the start") {
  const NamedGraph g = graph_of(R"(
    a 10
    b 1 start+0.5 a
    c 1 start+0 b
    d 1 start+2 a after b
    e 1 start+0.25 a after b)");
  const Timeline t = finish(g);
  CHECK(t.start_seconds[g["b"]] == 0.5);
  CHECK(t.start_seconds[g["c"]] == 0.5);
  CHECK(t.start_seconds[g["d"]] == 2);
  CHECK(t.binding[g["d"]] == g.ids.at("a"));
  CHECK(t.start_seconds[g["e"]] == 1.5);
  CHECK(t.binding[g["e"]] == g.ids.at("b"));
  CHECK(t.makespan_seconds == 10);
}

TEST_CASE("an edge given twice counts once in time") {
  const NamedGraph g = graph_of("a 1; b 2 after a a; c 3 after b start+1 b b");
  CHECK(finish(g).makespan_seconds == 6);
}

TEST_CASE("no tasks take no time") {
  const TaskGraph empty = TaskGraphBuilder(3).build();
  CHECK(std::get<Timeline>(run(empty)).makespan_seconds == 0);
}

// Law: a graph with a cycle does not finish. Each task named waits for the next, the last for the
// first.
TEST_CASE("a cycle is reported as who waits for whom") {
  CHECK(cycle("a 1 after c; b 1 after a; c 1 after b") == "a c b");
  CHECK(cycle("a 1 after a") == "a");
  CHECK(cycle("ok 1; a 1 start+1 b; b 1 after a ok; behind 1 after b") == "a b");
  // Two queues that take each other's turn: x must follow b, y must follow d.
  CHECK(cycle(R"(
    a 1 @left after d
    b 1 @left
    c 1 @right after b
    d 1 @right)") == "a d c b");
  CHECK(cycle("link l 1; f 1 uses l 1; g 1 uses l 1 after f h; h 1 after g") == "g h");
}

// What waits for a task that runs for ever is stuck without a cycle.
TEST_CASE("a stuck task whose predecessors run for ever is in no cycle") {
  const NamedGraph chain = graph_of("a 1; b 1 after a; c 1 after b");
  CHECK(find_deadlock(chain.graph, std::vector<uint8_t>{0, 1, 1}).cycle.empty());
  CHECK(find_deadlock(chain.graph, std::vector<uint8_t>{0, 0, 0}).cycle.empty());
  const NamedGraph both = graph_of("a 1; b 1 after a; c 1 after b; d 1 after e; e 1 after d");
  CHECK(both.spell(find_deadlock(both.graph, std::vector<uint8_t>{0, 1, 1, 1, 1}).cycle) == "d e");
}

// A start edge does not wait for the finish, so this is no cycle.
TEST_CASE("a task may start after one that starts after it was allowed to") {
  const NamedGraph g = graph_of("a 5; b 1 start+1 a; c 1 after b; d 1 start+0 c after a");
  CHECK(finish(g).start_seconds[g["d"]] == 5);
}

// (512 + 63) x 3 ms with free transfers; 1132 transfers of 50 us lie on the critical path: 1.725 +
// 0.0566 s.
TEST_CASE("1F1B of 64 stages and 512 microbatches takes 1.781600 s") {
  const TaskGraph graph = one_f_one_b({});
  CHECK(graph.task_count() == 64 * 512 * 2 + 63 * 512 * 2);
  CHECK(std::get<Timeline>(run(graph)).makespan_seconds == doctest::Approx(1.781600).epsilon(1e-9));
}

// With free transfers: (m + p - 1)(F + B), the textbook 1F1B makespan.
TEST_CASE("1F1B with free transfers has the textbook makespan") {
  for (uint32_t p : {1u, 2u, 4u, 7u}) {
    for (uint32_t m : {1u, 2u, 7u, 20u}) {
      const TaskGraph graph = one_f_one_b({.stages = p,
                                           .microbatches = m,
                                           .forward_seconds = 1,
                                           .backward_seconds = 2,
                                           .transfer_seconds = 0});
      CHECK(std::get<Timeline>(run(graph)).makespan_seconds == 3.0 * (m + p - 1));
    }
  }
}
