// Flows that share links, worked by hand. Expected times are exact binary fractions wherever they
// can be.
#include <doctest/doctest.h>

#include "sim/engine/engine.h"
#include "tests/support/graph_text.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

Timeline shared_finish(const NamedGraph& g, bool sharing = true) {
  return std::get<Timeline>(run(g.graph, {.sharing = sharing}));
}
double shared_finish(const std::string& text, const std::string& task) {
  const NamedGraph g = graph_of(text);
  return shared_finish(g).finish_seconds[g[task]];
}

}  // namespace

TEST_CASE("two flows halve a link and the longer one speeds up when the shorter has gone") {
  // Both at 1/2 until f is through at 4; g has moved 2 of its 6 seconds of work by then.
  const std::string text = "link l 10; f 2 uses l 10; g 6 uses l 10";
  CHECK(shared_finish(text, "f") == 4);
  CHECK(shared_finish(text, "g") == 8);
  const NamedGraph g = graph_of(text);
  CHECK(shared_finish(g, false).finish_seconds == std::vector<double>{2, 6});
}

TEST_CASE("a flow that arrives later slows the first from then on") {
  // f alone for 1 s, then 1/2 each: f's last 3 s take 6; g has 1 s left when f goes at 7.
  const std::string text =
      "link l 10; wait 1; f 4 uses l 10; g 4 uses l 10 after wait; after_f 1 after f";
  CHECK(shared_finish(text, "f") == 7);
  CHECK(shared_finish(text, "g") == 8);
  CHECK(shared_finish(text, "after_f") == 8);
}

// The textbook line network (Bertsekas and Gallager, Data Networks, 6.5.2): one long flow crosses
// both links, one short flow on each. Link p has 10, q has 30: long and p-short get 5 each, q-short
// the other 25.
TEST_CASE("three flows on two links are max-min fair") {
  const std::string text = R"(
    link p 10
    link q 30
    long 1 uses p 100 uses q 100
    on_p 1 uses p 100
    on_q 1 uses q 100)";
  CHECK(shared_finish(text, "on_q") == 4);
  CHECK(shared_finish(text, "long") == 20);
  CHECK(shared_finish(text, "on_p") == 20);
}

TEST_CASE("a flow that wants less than its share leaves the rest to others") {
  // small needs 2 of 10: full speed. The two big ones get 4 of their 8 each until small goes at 4,
  // then 5 of 8.
  const std::string text = "link l 10; small 4 uses l 2; big 4 uses l 8; other 4 uses l 8";
  CHECK(shared_finish(text, "small") == 4);
  CHECK(shared_finish(text, "big") == doctest::Approx(4 + 2 / (5.0 / 8)).epsilon(1e-15));
}

TEST_CASE("multiplicity counts the flows of ranks that are not simulated") {
  // f stands for 3 flows, g for 1: everybody gets 10/4, a quarter of the full rate.
  const std::string text = "link l 10; f 1 uses l 10 x3; g 1 uses l 10";
  CHECK(shared_finish(text, "f") == 4);
  CHECK(shared_finish(text, "g") == 4);
  // The same, unfolded.
  const std::string unfolded =
      "link l 10; f 1 uses l 10; f2 1 uses l 10; f3 1 uses l 10; g 1 uses l 10";
  CHECK(shared_finish(unfolded, "f") == shared_finish(text, "f"));
}

TEST_CASE("a flow that alone wants more than a link has is slowed even when nobody competes") {
  CHECK(shared_finish("link l 10; f 1 @s uses l 10 x4", "f") == 4);
  CHECK(shared_finish("link l 10; f 1 @s latency 0.5 uses l 20", "f") == 1.5);
}

TEST_CASE("latency passes at full speed and takes nothing of the link") {
  // f moves bytes in [0, 2]; g, ready at 0, is in its latency until 2: neither slows the other.
  const std::string apart = "link l 10; f 2 uses l 10; g 3 latency 2 uses l 10";
  CHECK(shared_finish(apart, "f") == 2);
  CHECK(shared_finish(apart, "g") == 3);
  // With latency 1 they share in [1, 3]: f has 1 left at 1/2, g 2 left of which 1 moves at full
  // speed in [3, 4].
  const std::string overlap = "link l 10; f 2 uses l 10; g 3 latency 1 uses l 10";
  CHECK(shared_finish(overlap, "f") == 3);
  CHECK(shared_finish(overlap, "g") == 4);
  CHECK(shared_finish("link l 10; f 2 latency 2 uses l 10; g 2 latency 2 uses l 10", "g") == 2);
}

TEST_CASE("a flow's speed is that of its slowest claim, and the others follow") {
  // h moves 4 on NVLink for each 1 on the NIC, which n halves; g then finds 24 - 8 of NVLink, all
  // it wants.
  const std::string text = R"(
    link nvlink 24
    link nic 4
    h 2 uses nvlink 16 uses nic 4
    n 2 uses nic 4
    g 2 uses nvlink 16)";
  CHECK(shared_finish(text, "h") == 4);
  CHECK(shared_finish(text, "n") == 4);
  CHECK(shared_finish(text, "g") == 2);
}

TEST_CASE("claims on one stream never meet, so they cost nothing") {
  const NamedGraph g =
      graph_of("link l 10; a 1 @s uses l 10; b 0.1 @s uses l 10; c 0.2 @s uses l 10");
  CHECK(shared_finish(g).finish_seconds == shared_finish(g, false).finish_seconds);
}

// Law: a flow that nobody slows finishes at ready + duration to the last bit, as with sharing off.
TEST_CASE("shared links without competition leave no trace in the numbers") {
  const NamedGraph g = graph_of(R"(
    link l 10
    a 0.1 uses l 3
    b 0.7 latency 0.3 uses l 3 after a
    c 0.3 uses l 10 after b        # b's bytes end when c's begin
    d 0.9 latency 0.2 uses l 10 after c
    e 0.17 uses l 0 after a
    f 0 uses l 10 after a)");
  CHECK(shared_finish(g).finish_seconds == shared_finish(g, false).finish_seconds);
  CHECK(shared_finish(g).binding == shared_finish(g, false).binding);
}

// Law: a rate is a float; one that equals the capacity up to its rounding is not slowed by it.
TEST_CASE("a float's rounding above capacity does not slow a flow") {
  const NamedGraph g = graph_of("link l 0.1; a 1 uses l 0.1; b 1 uses l 0.1 after a");
  CHECK(shared_finish(g).makespan_seconds == 2);
}

TEST_CASE("start edges leave from a flow when it is ready") {
  const NamedGraph g = graph_of(R"(
    link l 10
    a 1
    f 2 latency 0.5 uses l 10 after a
    g 2 latency 0.5 uses l 10 after a
    h 1 start+0.25 f)");
  const Timeline t = shared_finish(g);
  CHECK(t.start_seconds[g["h"]] == 1.25);
  CHECK(t.start_seconds[g["f"]] == 1);
  CHECK(t.finish_seconds[g["f"]] == 4.5);
}

// Processor sharing: n flows of 1, 2, ... n seconds that each want the whole link. The k-th leaves
// after the ones before it, when those still there, n - k + 1 of them, have each moved one second
// more.
TEST_CASE("many flows on one link leave in order of size") {
  const uint32_t flows = 300;
  TaskGraphBuilder builder(0);
  const Claim whole{.resource = builder.add_resource(64), .rate = 64};
  for (uint32_t k = 1; k <= flows; ++k) {
    builder.set_claims(builder.add_task(k, no_stream, 0), 0, std::span(&whole, 1));
  }
  const TaskGraph graph = std::move(builder).build();
  const Timeline t = std::get<Timeline>(run(graph));
  double expected = 0;
  for (uint32_t k = 1; k <= flows; ++k) {
    expected += flows - k + 1;
    CHECK(t.finish_seconds[k - 1] == doctest::Approx(expected).epsilon(1e-12));
  }
}
