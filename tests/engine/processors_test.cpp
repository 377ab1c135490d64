// Holders and runners of processors, worked by hand.
#include "sim/engine/processors.h"

#include <doctest/doctest.h>

#include "sim/engine/engine.h"
#include "tests/support/graph_text.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

Timeline on_processors(const NamedGraph& g) { return std::get<Timeline>(run(g.graph)); }
double ends(const std::string& text, const std::string& task) {
  const NamedGraph g = graph_of(text);
  return on_processors(g).finish_seconds[g[task]];
}

}  // namespace

TEST_CASE("a runner keeps what nobody holds") {
  // Small blocks: half speed while 4 of 8 are held, for 2 s; the other 3 s at full speed.
  CHECK(ends("pool sm 8; g 4 @c runs sm 8; n 2 @tp holds sm 4", "g") == 5);
  // Two waves of 8 become three of 6: two thirds of the speed.
  CHECK(ends("pool sm 8; g 4 @c runs sm 8 in 16; n 100 @tp holds sm 2", "g") == 6);
  // 4 blocks need no more than 6 processors.
  CHECK(ends("pool sm 8; g 4 @c runs sm 8 in 4; n 100 @tp holds sm 2", "g") == 4);
  // A memory-bound kernel with a block on each of 8, 4 of which saturate it. 6 free: 6 blocks at
  // the full rate, then 2 at half of it: 6 + 4 in place of 8.
  CHECK(ends("pool sm 8; g 4 @c runs sm 8 in 8 saturating 4; n 100 @tp holds sm 2", "g") == 5);
  // A margin of two: nothing is lost.
  CHECK(ends("pool sm 8; g 4 @c runs sm 6 in 16; n 100 @tp holds sm 2", "g") == 4);
  // More held than there are: one processor is left.
  CHECK(ends("pool sm 8; g 1 @c runs sm 8; a 100 @x holds sm 6; b 100 @y holds sm 6", "g") == 8);
}

TEST_CASE("a holder gets its processors where the wave ends") {
  // Waves of 2 s; it asks at 1, gets them at 2 and moves for 3 s. The runner's second wave becomes
  // two: 16 blocks are 2 waves of 8 or 3 of 6, speed 2/3 from 2 to 5, all work done by then.
  const std::string text = "pool sm 8; g 4 @c runs sm 8 in 16; t 1 @x; n 3 @tp after t holds sm 2";
  CHECK(ends(text, "n") == 5);
  CHECK(ends(text, "g") == 5);
  // Small blocks free processors at once: 1 s alone, then 6 of 8.
  const std::string small = "pool sm 8; g 4 @c runs sm 8; t 1 @x; n 3 @tp after t holds sm 2";
  CHECK(ends(small, "n") == 4);
  CHECK(ends(small, "g") == doctest::Approx(1 + 3 + 0.75));
  // Persistent blocks stay to the end.
  CHECK(ends("pool sm 8; g 4 @c runs sm 8 in 16 persistent; t 1 @x; n 3 @tp after t holds sm 2",
             "n") == 7);
  // A margin as large as what it needs: no wait.
  CHECK(ends("pool sm 8; g 4 @c runs sm 6 in 16; t 1 @x; n 3 @tp after t holds sm 2", "n") == 4);
  // Four blocks leave four processors.
  CHECK(ends("pool sm 8; g 4 @c runs sm 8 in 4; t 1 @x; n 3 @tp after t holds sm 4", "n") == 4);
  // At one instant the holder is first, unless it yields.
  CHECK(ends("pool sm 8; g 4 @c runs sm 8 in 16; n 1 @tp holds sm 2", "n") == 1);
  CHECK(ends("pool sm 8; g 4 @c runs sm 8 in 16; n 1 @tp holds sm 2 yields", "n") == 3);
}

TEST_CASE("a hold that one task begins and another ends includes the wait between") {
  // Taken at 0, given back at 1 + 2: three seconds at half speed.
  const std::string text =
      "pool sm 8; g 4 @c runs sm 8; a 0 @tp takes sm 4; late 1 @x; n 2 @tp after a late gives sm 4";
  CHECK(ends(text, "n") == 3);
  CHECK(ends(text, "g") == 3 + 2.5);
}

TEST_CASE("processors and bandwidth together: the tighter of both") {
  // Alone the kernel uses all of the memory; half of the processors give half of its demand, and
  // the transfer's 4 of 10 fit beside it.
  const std::string text =
      "pool sm 8; link hbm 10; g 4 @c uses hbm 10 runs sm 8; n 100 @tp uses hbm 4 holds sm 4";
  CHECK(ends(text, "g") == 8);
  CHECK(ends(text, "n") == 100);
  // Three quarters of the processors would want 7.5, the transfer leaves 6.
  const std::string memory =
      "pool sm 8; link hbm 10; g 3 @c uses hbm 10 runs sm 8; n 100 @tp uses hbm 4 holds sm 2";
  CHECK(ends(memory, "g") == doctest::Approx(5));
}

TEST_CASE("a pool that one queue uses, or that nobody holds, stays out of the way") {
  CHECK(contended_pools(graph_of("pool sm 8; a 1 @c runs sm 8; b 1 @c holds sm 2").graph) ==
        std::vector<uint8_t>{0});
  CHECK(contended_pools(graph_of("pool sm 8; a 1 @c runs sm 8; b 1 @d runs sm 8").graph) ==
        std::vector<uint8_t>{0});
  CHECK(contended_pools(graph_of("pool sm 8; a 1 @c runs sm 8; b 1 @d holds sm 2").graph) ==
        std::vector<uint8_t>{1});
}
