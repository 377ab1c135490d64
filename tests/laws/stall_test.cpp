// A step that cannot finish is a cycle of waits, never a time. pipeline.p2p_order makes transfers
// block one by one: in one order for all ranks neighbours wait for each other (the root cause named
// in NVIDIA/Megatron-LM issue 5100), in Megatron-Core's even/odd order every send meets its
// receive.
#include <doctest/doctest.h>

#include "sim/base/error.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;
using nlohmann::json;

namespace {

json given_in_order(const char* order, int pp, int vp, int microbatches) {
  json s{{"costs", {{"forward_seconds", 1}, {"backward_seconds", 2}, {"p2p_seconds", 0.125}}},
         {"model", {{"pipeline_model_parallel_size", pp}}},
         {"pipeline", {{"p2p_order", order}}},
         {"train", {{"global_batch_size", microbatches}}}};
  if (vp > 0) s["model"]["virtual_pipeline_model_parallel_size"] = vp;
  return s;
}

bool stalls(const json& scenario) {
  return std::holds_alternative<Stall>(simulate(read(scenario)));
}

}  // namespace

// Stage 0 runs F0 (0-1), its transfer ends at 1.125, F1 ends at 2.125 and sends to the next stage;
// stage 1 runs F0 and B0 (1.125-4.125) and sends to the previous one. Neither receives first.
TEST_CASE("two stages that both send first wait for each other") {
  const auto outcome = simulate(read(given_in_order("fixed", 2, 0, 2)));
  const Stall* stall = std::get_if<Stall>(&outcome);
  REQUIRE(stall != nullptr);
  CHECK(stall->reached_seconds == doctest::Approx(4.125));
  std::string text;
  for (const std::string& wait : stall->waits) text += wait + "\n";
  CAPTURE(text);
  // Both sends, each behind the other rank's receive.
  for (const char* part : {"rank 0 (stage 0) pp send next: pp forward mb1",
                           "rank 1 (stage 1) pp send prev: pp backward mb0"})
    CHECK(text.find(part) != std::string::npos);
}

TEST_CASE(
    "law: one order for all stalls wherever a stage sends and receives at once; even/odd never") {
  for (int pp : {2, 3, 4, 8})
    for (int microbatches : {2, 4, 8}) {
      CAPTURE(pp);
      CAPTURE(microbatches);
      CHECK(stalls(given_in_order("fixed", pp, 0, microbatches)));
      CHECK_FALSE(stalls(given_in_order("even_odd", pp, 0, microbatches)));
      // GPipe sends one way at a time.
      json gpipe = given_in_order("fixed", pp, 0, microbatches);
      gpipe["pipeline"]["schedule"] = "gpipe";
      CHECK_FALSE(stalls(gpipe));
    }
  for (int pp : {4, 8}) {
    CAPTURE(pp);
    CHECK(stalls(given_in_order("fixed", pp, 2, pp)));
    CHECK_FALSE(stalls(given_in_order("even_odd", pp, 2, pp)));
  }
}

TEST_CASE("kernels: the order of blocking p2p at PP4") {
  json s = scenario_json("pythia-160m", "dgx-h100", {.pp = 4, .microbatches = 8});
  s["comm_overlap"]["overlap_p2p_comm"] = false;
  s["comm_overlap"]["batch_p2p_comm"] = false;
  const double together = seconds_of(read(s), apart);
  s["pipeline"]["p2p_order"] = "even_odd";
  CHECK(seconds_of(read(s), apart) >= together);
  s["pipeline"]["p2p_order"] = "fixed";
  CHECK(stalls(s));
  // Batched or overlapped exchanges have no such order.
  s["comm_overlap"]["batch_p2p_comm"] = true;
  CHECK_THROWS_AS(read(s), Error);
}
