// What a check says without simulating.
#include "sim/report/check.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/config/read.h"

using namespace stepsim;

namespace {

Scenario checked(std::vector<std::string> words, const std::string& model = "llama3-8b",
                 const std::string& cluster = "dgx-h100:1") {
  const std::string text =
      R"({"model": {"hf_config": ")" + model +
      R"("}, "dataset": {"seq_length": 4096}, "train": {"global_batch_size": 1024}, "ddp": {"use_distributed_optimizer": true}})";
  return read_scenario_text(text, "check.json", words, cluster, find_data(), Strictness::collect);
}

std::string size(const std::string& key, int n) {
  return "model." + key + "_model_parallel_size=" + std::to_string(n);
}

nlohmann::json mesh_of(int pp, int tp, int cp, int ep, int etp, int gpus) {
  const Scenario s =
      checked({size("pipeline", pp), size("tensor", tp),
               "model.context_parallel_size=" + std::to_string(cp), size("expert", ep),
               "model.expert_tensor_parallel_size=" + std::to_string(etp),
               tp > 1 ? "model.sequence_parallel=true" : "model.sequence_parallel=false",
               "cluster.gpus=" + std::to_string(gpus)},
              "mixtral-8x7b", "dgx-h100");
  return nlohmann::json::parse(check_json(s, make_check(s))).at("mesh");
}

}  // namespace

// Guide "parallelism strategy selection", rules B6 and B7.
TEST_CASE("min_gpus = PP x max(TP x CP, EP x ETP): the guide's six examples") {
  struct Row {
    int pp, tp, cp, ep, etp, gpus;
  };
  for (const Row& r : {Row{1, 2, 1, 8, 1, 8}, Row{1, 4, 1, 8, 1, 8}, Row{1, 2, 2, 8, 1, 8},
                       Row{1, 2, 4, 8, 1, 8}, Row{2, 2, 1, 8, 1, 16}, Row{1, 2, 1, 4, 2, 8}}) {
    CAPTURE(r.tp);
    CAPTURE(r.ep);
    CHECK(mesh_of(r.pp, r.tp, r.cp, r.ep, r.etp, r.gpus).at("min_gpus") == r.gpus);
  }
}

TEST_CASE("above the minimum: TP2 EP8 on 8, 16 and 32 GPUs has DP 4, 8, 16 and expert DP 1, 2, 4") {
  for (int k : {1, 2, 4}) {
    const nlohmann::json mesh = mesh_of(1, 2, 1, 8, 1, 8 * k);
    CHECK(mesh.at("dp") == 4 * k);
    CHECK(mesh.at("edp") == k);
  }
}

TEST_CASE("the product of all five sizes is named where a world equals it") {
  const Scenario s = checked(
      {size("tensor", 2), size("expert", 8), "model.sequence_parallel=true", "cluster.gpus=16"},
      "mixtral-8x7b", "dgx-h100");
  const auto five = std::ranges::find(s.findings, "five-fold-product", &Finding::id);
  REQUIRE(five != s.findings.end());
  CHECK(five->effective == "8");
}

// Rule B9: 70B in 16 bit, batch 1, 4K tokens: 140 + 140 + 280 + 48 = 608 GB; TP4 PP4: 8.75 + 8.75 +
// 17.5 + 3.0, about 38 GB.
TEST_CASE("the rule of thumb gives the guide's two columns") {
  Model m;
  m.hidden = 8192;
  m.layers = 80;
  const RuleOfThumb whole =
      rule_of_thumb(70e9, m, {.global = 1, .micro = 1, .sequence = 4096, .microbatches = 1});
  const auto printed = [](double bytes) { return fmt::format("{:.0f}", bytes / 1e9); };
  CHECK(printed(whole.parameters) == "140");
  CHECK(printed(whole.gradients) == "140");
  CHECK(printed(whole.optimizer) == "280");
  CHECK(printed(whole.activations) == "48");
  CHECK(printed(whole.total()) == "608");
  const RuleOfThumb gpu = whole.per_gpu(4, 4);
  CHECK(fmt::format("{:.2f} {:.2f} {:.1f} {:.1f} {:.0f}", gpu.parameters / 1e9, gpu.gradients / 1e9,
                    gpu.optimizer / 1e9, gpu.activations / 1e9,
                    gpu.total() / 1e9) == "8.75 8.75 17.5 3.0 38");
}

// Megatron-LM theoretical memory: bytes a local parameter.
TEST_CASE(
    "bytes of a parameter: no sharding 18, sharded over G 6 + 12/G, bf16 gradients 4 + 12/G") {
  const auto bytes = [](std::vector<std::string> words) {
    words.push_back(size("tensor", 2));
    const CheckReport r = make_check(checked(words, "llama3-8b", "dgx-h100:1"));
    const DeviceMemory& m = r.stages[0].memory;
    return (m.parameters + m.gradients + m.optimizer) /
           static_cast<double>(r.stages[0].parameters());
  };
  CHECK(bytes({"ddp.use_distributed_optimizer=false"}) == 18);
  CHECK(bytes({}) == 6 + 12.0 / 4);                                 // DP 4
  CHECK(bytes({"model.context_parallel_size=2"}) == 6 + 12.0 / 4);  // DP x CP 4
  CHECK(bytes({"mixed_precision.grad_reduce_in_fp32=false"}) == 4 + 12.0 / 4);
  // bf16 moments and fp32 masters of which the parameter is half: 2 + 2 + 2.
  CHECK(bytes({"optimizer.use_precision_aware_optimizer=true", "optimizer.exp_avg_dtype=bf16",
               "optimizer.exp_avg_sq_dtype=bf16"}) == 6 + 6.0 / 4);
}

TEST_CASE("experts are sharded by EP x ETP and their optimizer by expert data parallelism") {
  const Scenario s = checked({size("expert", 8)}, "mixtral-8x7b", "dgx-h100:2");
  const CheckReport r = make_check(s);
  const Model& m = s.model;
  const int64_t routed = int64_t{m.layers} * 3 * m.hidden * m.moe.ffn_hidden;  // one expert a layer
  REQUIRE(r.stages.size() == 1);
  CHECK(r.stages[0].chunks[0].expert_elements == routed);
  CHECK(r.stages[0].chunks[0].owned ==
        r.stages[0].chunks[0].elements / 16 + r.stages[0].chunks[0].expert_elements / 2);
}

TEST_CASE("a check of what Megatron refuses lists the reasons and is not valid") {
  const Scenario s = checked({size("tensor", 3), "cluster.gpus=8"}, "llama3-8b", "dgx-h100");
  const nlohmann::json json = nlohmann::json::parse(check_json(s, make_check(s)));
  CHECK(json.at("valid") == false);
  CHECK(json.at("findings").size() >= 2);  // the world, the heads
  CHECK(check_text(s, make_check(s)).find("NOT VALID") != std::string::npos);
}
