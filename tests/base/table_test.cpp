#include "sim/base/table.h"

#include <doctest/doctest.h>

using namespace stepsim;

// Law: a metric on words (ninja's edit_distance cases), a swap of neighbours costing one.
TEST_CASE("edit distance") {
  struct Row {
    const char *a, *b;
    int distance;
  };
  for (const Row& row : {Row{"", "ninja", 5},
                         {"ninja", "", 5},
                         {"", "", 0},
                         {"ninja", "njnja", 1},
                         {"ninja", "njinja", 1},
                         {"ninja", "nijna", 1},
                         {"browser_tests", "browser_tests", 0},
                         {"kitten", "sitting", 3},
                         {"ab", "ba", 1},
                         {"ca", "abc", 3}}) {
    CAPTURE(row.a);
    CAPTURE(row.b);
    CHECK(edit_distance(row.a, row.b) == row.distance);
    CHECK(edit_distance(row.b, row.a) == row.distance);
  }
}

TEST_CASE("nearest name") {
  const std::vector<std::string> names{"llama3-8b", "llama3-70b", "gpt3-175b"};
  CHECK(nearest("llama3-80b", names) == "llama3-8b");
  CHECK(nearest("lama3-70b", names) == "llama3-70b");
  CHECK(nearest("gtp3-175b", names) == "gpt3-175b");
  CHECK(nearest("mamba", names).empty());                   // nothing is near: no guess
  CHECK(nearest(std::string(100000, 'x'), names).empty());  // and no quadratic work on junk
}

TEST_CASE("suggestion") {
  const std::vector<std::string> names{"gpipe", "1f1b", "interleaved"};
  CHECK(suggestion("gpip", names) == "; did you mean 'gpipe'?");
  CHECK(suggestion("dualpipe_v", names) == "; valid: gpipe, 1f1b, interleaved");
  CHECK(suggestion("x", {}).empty());
  const std::vector<std::string> many(13, "a_long_name");
  CHECK(suggestion("x", many).ends_with(", ..."));
}
