// What a measured row leaves out: the nearest that Megatron accepts, and that it is said.
#include "sim/study/assume.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/config/read.h"

using namespace stepsim;
using nlohmann::json;

namespace {

/// `model` keys on 16 DGX H100; what is assumed, and whether a run then accepts it.
std::vector<std::string> assumed(json model, json* scenario = nullptr) {
  json s{{"cluster", {{"system", "dgx-h100"}, {"nodes", 16}}},
         {"model", std::move(model)},
         {"dataset", {{"seq_length", 4096}}},
         {"train", {{"global_batch_size", 128}}}};
  const auto read = [&](Strictness strictness) {
    return read_scenario_text(s.dump(), "x.json", {}, "", find_data(), strictness);
  };
  const std::vector<std::string> keys = assume(s, read(Strictness::collect));
  for (const Finding& f : read(Strictness::collect).findings)
    CHECK_MESSAGE(f.kind != Finding::Kind::error, f.id);
  if (scenario != nullptr) *scenario = s;
  return keys;
}

using Keys = std::vector<std::string>;

}  // namespace

// 78 layers, embedding and loss over 12 stages: 80 = 8 x 7 + 4 x 6.
TEST_CASE("an even layout: no stage holds two more than another") {
  CHECK(even_layout(6, 0, 4) == "Et|tt|tt|tL");
  CHECK(even_layout(5, 0, 4) == "Et|tt|t|tL");
  CHECK(even_layout(5, 1, 4) == "Et|tt|tt|mL");
  CHECK(even_layout(2, 0, 2) == "Et|tL");
  CHECK(even_layout(1, 0, 4).empty());  // three for four
  CHECK(even_layout(2, 1, 4) == "E|t|t|mL");
  CHECK(even_layout(2, 2, 4).empty());  // the last stage would lack one of its three
}

TEST_CASE("a split that nobody published") {
  // (126 + 2) / 8; 405B is trained so (Megatron-Bridge recipes).
  CHECK(assumed({{"hf_config", "llama3.1-405b"}, {"pipeline_model_parallel_size", 8}}) ==
        Keys{"model.account_for_embedding_in_pipeline_split",
             "model.account_for_loss_in_pipeline_split"});
  // Neither 78 nor 79 divides by 16.
  json s;
  CHECK(assumed({{"hf_config", "llama3-70b"},
                 {"pipeline_model_parallel_size", 16},
                 {"num_layers", 77},
                 {"account_for_embedding_in_pipeline_split", true}},
                &s) == Keys{"model.pipeline_model_parallel_layout"});
  CHECK_FALSE(s["model"].contains("account_for_embedding_in_pipeline_split"));
  // What divides is left alone.
  CHECK(assumed({{"hf_config", "llama3-70b"}, {"pipeline_model_parallel_size", 8}}).empty());
}

TEST_CASE("sequence parallelism that experts need, where the row does not deny it") {
  CHECK(assumed({{"hf_config", "mixtral-8x7b"},
                 {"tensor_model_parallel_size", 2},
                 {"expert_model_parallel_size", 8}}) == Keys{"model.sequence_parallel"});
}

// Megatron-Bridge perf_recipes/llama: cfg.peft.target_modules = ["linear_qkv"].
TEST_CASE("adapters of a row that names a scheme alone") {
  const auto targets = [](json peft, json ddp = json::object()) {
    json s{{"cluster", {{"system", "dgx-h100"}, {"nodes", 1}}},
           {"model", {{"hf_config", "llama3-8b"}}},
           {"peft", std::move(peft)},
           {"ddp", std::move(ddp)},
           {"dataset", {{"seq_length", 4096}}},
           {"train", {{"global_batch_size", 32}}}};
    const Keys keys =
        assume(s, read_scenario_text(s.dump(), "x.json", {}, "", find_data(), Strictness::collect));
    return std::pair(keys, s["peft"].value("target_modules", json()).dump());
  };
  CHECK(targets({{"scheme", "lora"}}) ==
        std::pair(Keys{"peft.target_modules"}, std::string(R"(["linear_qkv"])")));
  CHECK(targets({{"scheme", "lora"}, {"target_modules", {"linear_fc1"}}}) ==
        std::pair(Keys{}, std::string(R"(["linear_fc1"])")));
  CHECK(targets({{"scheme", "lora"}}, {{"use_megatron_fsdp", true},
                                       {"data_parallel_sharding_strategy", "optim_grads_params"}})
            .first.empty());
}
