// Reports as they were: change detection only, no claim that they are right. A change that moves
// them belongs under "Changed results" in CHANGELOG.md. STEPSIM_REWRITE=1 writes the new ones.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/cli/program.h"

using namespace stepsim::test;

TEST_CASE("reports of shipped scenarios are those in tests/golden") {
  for (const char* name :
       {"1f1b-4x8", "gpipe-4x8", "interleaved-4x8", "gpt3-175b-64xa100-selective",
        "nemotron4-15b-16xh100-bf16", "llama3-8b-8xb200-fp8", "straggler-4xh100-ddp"}) {
    CAPTURE(name);
    const std::string path = std::string("tests/golden/") + name + ".txt";
    const std::string report = output(std::string("run scenarios/") + name + ".json");
    if (std::getenv("STEPSIM_REWRITE") != nullptr) std::ofstream(path, std::ios::binary) << report;
    CHECK(read_text(path) == report);
  }
}
