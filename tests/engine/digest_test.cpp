// Equal graphs have equal digests; a graph that differs anywhere has another.
#include "sim/engine/digest.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/support/graph_text.h"

using namespace stepsim;
using stepsim::test::graph_of;

namespace {

struct Edit {
  std::string from, to;
};

}  // namespace

TEST_CASE("a digest tells graphs apart by anything that moves a step, and by nothing else") {
  const std::string whole = R"(link nic 10
    pool sm 8
    a 3 @compute
    b 2 @tp after a
    c 1 start+0.5 a
    f 4 latency 1 uses nic 5 x2
    g 4 @compute runs sm 8 in 16)";
  const auto of = [](std::string text) { return digest(graph_of(text).graph); };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return of(text.replace(at, from.size(), to));
  };
  std::set<Digest> seen{of(whole)};
  CHECK(seen.contains(of(whole)));
  for (const Edit& e :
       {Edit{"nic 10", "nic 11"}, Edit{"sm 8\n", "sm 9\n"}, Edit{"a 3", "a 3.5"},
        Edit{"@tp", "@compute"}, Edit{" after a", ""}, Edit{"start+0.5", "start+0.25"},
        Edit{"latency 1", "latency 2"}, Edit{"nic 5", "nic 6"}, Edit{" x2", ""},
        Edit{"runs sm 8", "runs sm 7"}, Edit{"in 16", "in 17"}, Edit{"g 4 @compute", "g 4"}}) {
    CAPTURE(e.from);
    CHECK(seen.insert(changed(e.from, e.to)).second);
  }
}
