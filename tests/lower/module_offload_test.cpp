// Saved inputs of modules on the host: bytes by hand, when they leave and return, what they free.
#include "sim/lower/module_offload.h"

#include <doctest/doctest.h>

#include "sim/cost/saved_inputs.h"
#include "sim/lower/inventory.h"
#include "tests/lower/course.h"
#include "tests/lower/tiny.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

Scenario module_offloading(const std::string& modules, const Run& r = {},
                           std::vector<std::string> words = {}) {
  words.emplace_back("model.fine_grained_activation_offloading=true");
  words.emplace_back("model.offload_modules=" + modules);
  words.emplace_back("env_vars.NVTE_CPU_OFFLOAD_V1=1");
  return tiny(r, std::move(words));
}

double bytes_of(const Scenario& s) { return saved_input_bytes(s, s.model.shape(0), false); }

}  // namespace

// 2048 tokens, hidden 1024, 16 heads of 64: every tensor has 2 Mi elements.
TEST_CASE("a module's saved inputs, by hand") {
  constexpr double tensor = 2048.0 * 1024 * 2;
  CHECK(bytes_of(module_offloading("[attn_norm]")) == tensor);
  CHECK(bytes_of(module_offloading("[qkv_linear]")) == tensor);
  CHECK(bytes_of(module_offloading("[core_attn]")) == 3 * tensor);
  CHECK(bytes_of(module_offloading("[core_attn,attn_proj,mlp_norm]")) == 5 * tensor);
  CHECK(bytes_of(module_offloading("[expert_fc1]")) == 0);
  // Half of each is still 1 Mi elements; a quarter stays.
  CHECK(bytes_of(module_offloading("[core_attn]", {.tp = 2})) == 3 * tensor / 2);
  CHECK(bytes_of(module_offloading("[core_attn]", {.tp = 4})) == 0);
  CHECK(bytes_of(module_offloading("[core_attn]", {.tp = 4},
                                   {"model.min_offloaded_tensor_size=1024"})) == 3 * tensor / 4);
}

// 8 experts of 512, two for each token: 4096 copies, gated.
TEST_CASE("saved inputs of experts, by hand") {
  const auto moe = [](const std::string& modules, std::vector<std::string> words = {}) {
    for (const char* w :
         {"model.num_moe_experts=8", "model.moe_ffn_hidden_size=512", "model.moe_router_topk=2",
          "model.moe_grouped_gemm=true", "model.moe_token_dispatcher_type=alltoall",
          "model.gated_linear_unit=true", "model.use_transformer_engine_op_fuser=true"})
      words.emplace_back(w);
    return bytes_of(module_offloading(modules, {}, words));
  };
  constexpr double copies = 4096, fc1 = copies * 1024 * 2, act = copies * 1024 * 2,
                   fc2 = copies * 512 * 2;
  CHECK(moe("[expert_fc1]") == fc1);
  CHECK(moe("[moe_act]") == act);
  CHECK(moe("[fused_group_mlp]") == fc1 + act + fc2);
  CHECK(moe("[fused_group_mlp]", {"model.recompute_granularity=selective",
                                  "model.recompute_modules=[moe_act]"}) == fc1 + act);
}

// The last layer of a chunk whose backward is next stays; one layer is fetched ahead.
TEST_CASE("groups leave behind their layer and return one layer ahead") {
  CHECK(
      offload_course(lowered(module_offloading("[core_attn]", {.microbatches = 1, .layers = 4}))) ==
      "f0 >0 f1 >1 f2 >2 f3 <2 b3 <1 b2 <0 b1 b0");
  CHECK(offload_course(lowered(
            module_offloading("[core_attn]", {.microbatches = 1, .layers = 1}))) == "f0 b0");
}

TEST_CASE("law: what has left is not on the device, but for one layer's") {
  constexpr double layer = 3 * 2048.0 * 1024 * 2;
  for (int layers = 2; layers < 6; ++layers) {
    const Run r{.microbatches = 2, .layers = layers};
    const Scenario s = module_offloading("[core_attn]", r);
    const double plain = lowered(tiny(r)).memory[0].activations;
    CHECK(plain - lowered(s).memory[0].activations == (layers - 2) * layer);
    CHECK(inventory(s)[0].memory.activations == lowered(s).memory[0].activations);
  }
}

TEST_CASE("a copy takes its bytes over the host link's rate") {
  const Scenario s = module_offloading("[core_attn]", {.microbatches = 1, .layers = 2});
  const LoweredStep step = lowered(s);
  int copies = 0;
  for (uint32_t t = 0; t < step.graph.task_count(); ++t) {
    const OpKind op = Label::unpack(step.graph.labels[t]).op;
    if (op != OpKind::offload_out && op != OpKind::offload_in) continue;
    CHECK(step.graph.durations_seconds[t] ==
          doctest::Approx(5e-6 + 3 * 2048.0 * 1024 * 2 / (64e9 * 0.81)).epsilon(1e-6));
    ++copies;
  }
  CHECK(copies == 2);
}
