// What goes between stages. Megatron-LM until 2023 let each tensor rank send its share of a stage's
// output, which the receivers gathered (Narayanan et al. 2021, section 4.1).
#include <doctest/doctest.h>

#include <array>

#include "sim/network/collective.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;
using nlohmann::json;

namespace {

/// One microbatch through two stages of TP 8 on two nodes.
Scenario two_stages(bool sequence_parallel) {
  return read(json{{"cluster", {{"system", "dgx-a100"}, {"nodes", 2}}},
                   {"model",
                    {{"hf_config", "gpt3-175b"},
                     {"num_layers", 2},
                     {"tensor_model_parallel_size", 8},
                     {"pipeline_model_parallel_size", 2},
                     {"sequence_parallel", sequence_parallel}}},
                   {"mixed_precision", "bf16_mixed"},
                   {"dataset", {{"seq_length", 2048}}},
                   {"train", {{"global_batch_size", 1}, {"micro_batch_size", 1}}}});
}

double message_seconds(const Scenario& scenario) {
  const auto outcome = simulate(scenario);
  const auto& by_class = std::get<Simulation>(outcome).report.communication.by_class;
  return by_class[static_cast<size_t>(CommClass::pp)]->total_seconds;
}

}  // namespace

TEST_CASE("law: scattered messages take the time of a share and of its gathering") {
  const Scenario whole = two_stages(false), share = two_stages(true);
  Scenario scattered = whole;
  scattered.cluster.stack.scattered_messages = true;
  CHECK(message_seconds(scattered) < message_seconds(whole));
  const Fabric fabric(whole.cluster);
  const std::array<int, 8> ranks{0, 1, 2, 3, 4, 5, 6, 7};
  const CollectiveCost gather = collective_cost(Collective::all_gather, {2.0 * 2048 * 12288},
                                                place(ranks, fabric), whole.cluster);
  // One message forward and one back.
  CHECK(message_seconds(scattered) - message_seconds(share) ==
        doctest::Approx(2 * gather.duration.value).epsilon(1e-6));
  // With sequence parallelism the output is in shares anyway.
  Scenario both = share;
  both.cluster.stack.scattered_messages = true;
  CHECK(message_seconds(both) == message_seconds(share));
}
