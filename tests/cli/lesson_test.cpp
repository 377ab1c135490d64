// Lessons on the command line: listed, asked, answered, with a row of the user's own.
#include "tests/cli/program.h"

using namespace stepsim::test;

TEST_CASE("a lesson asks before it answers") {
  CHECK(output("lesson").find("  1  What a bubble is") != std::string::npos);
  const std::string asked = output("lesson 1");
  CHECK(asked.find("b) about 9 %") != std::string::npos);
  CHECK(asked.find("8.6 %") == std::string::npos);
}

TEST_CASE("the answer holds the engine's figures, the law, and a row of the user's own") {
  const std::string answered = output("lesson 1 a train.global_batch_size=64");
  // (p-1)/(m+p-1) of four stages: 3/7 and 3/67.
  CHECK(answered.find("4 microbatches                        21.00 ms          42.9 %") !=
        std::string::npos);
  CHECK(answered.find("yours                                201.00 ms           4.5 %") !=
        std::string::npos);
  CHECK(answered.find("It is   b) about 9 %") != std::string::npos);
  CHECK(output("lesson 1 b").find("Right.  b)") != std::string::npos);
}
