// Decoders whose layers differ, from their Hugging Face files.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "sim/config/document.h"
#include "sim/config/model_gaps.h"
#include "sim/config/model_read.h"
#include "tests/config/small.h"

using namespace stepsim;
using nlohmann::json;

namespace {

Model hybrid_of(const json& config) {
  const Document document = parse_document(config.dump(), "config.json");
  return read_architecture(Reader(document, ""), "m");
}

/// The message of the Error that a config raises with one key changed; null takes it away.
std::string hybrid_refusal(json config, const std::string& key, const json& value) {
  config[key] = value;
  if (value.is_null()) config.erase(key);
  try {
    hybrid_of(config);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("layers of a hybrid: read by their symbols, refused with their key") {
  const json hybrid = {{"model_type", "nemotron_h"},
                       {"num_hidden_layers", 4},
                       {"hidden_size", 64},
                       {"intermediate_size", 32},
                       {"num_attention_heads", 4},
                       {"vocab_size", 1000},
                       {"hybrid_override_pattern", "M-*E"},
                       {"mamba_num_heads", 8},
                       {"mamba_head_dim", 16},
                       {"n_groups", 2},
                       {"ssm_state_size", 32},
                       {"n_routed_experts", 4},
                       {"num_experts_per_tok", 2},
                       {"moe_intermediate_size", 32},
                       {"moe_latent_size", 16}};
  const Model m = hybrid_of(hybrid);
  CHECK(m.shape(0) == LayerShape{Mixer::mamba, FeedForward::none});
  CHECK(m.shape(1) == LayerShape{Mixer::none, FeedForward::dense});
  CHECK(m.shape(2) == LayerShape{Mixer::attention, FeedForward::none});
  CHECK(m.shape(3) == LayerShape{Mixer::none, FeedForward::experts});
  CHECK(m.moe.layers == std::vector<bool>{0, 0, 0, 1});
  CHECK(m.moe.latent == 16);
  CHECK(m.mamba.in_width() == 2 * 8 * 16 + 2 * 2 * 32 + 8);
  CHECK(simulates(m));
  for (const auto& [key, value, line] :
       {std::tuple{"hybrid_override_pattern", json("MMX*"),
                   "#/hybrid_override_pattern: unknown kind of layer 'X'"},
        {"hybrid_override_pattern", json("MM*"), "#/hybrid_override_pattern: must name each of 4"},
        {"hybrid_override_pattern", json(nullptr), "#/hybrid_override_pattern: is missing"},
        {"n_groups", json(3), "#/n_groups: must divide 8 Mamba heads; got 3"},
        {"mamba_num_heads", json(nullptr), "#/mamba_num_heads: is missing"},
        {"n_routed_experts", json(nullptr), "has layers of experts"}}) {
    const std::string expected = line;
    CAPTURE(expected);
    CHECK(hybrid_refusal(hybrid, key, value).find(line) != std::string::npos);
  }
}

// Megatron-Core ssm/mamba_mixer.py and transformer_config.py: heads and groups are split whole.
TEST_CASE("tensor parallelism divides the heads of recurrent layers") {
  const auto refused = [](const char* name, const char* tp) {
    return refusal({std::string("model.hf_config=") + name,
                    std::string("model.tensor_model_parallel_size=") + tp, "cluster.gpus=16"});
  };
  CHECK(refused("nemotron-h-56b", "16").find("must divide 256 Mamba heads and 8 groups; got 16") !=
        std::string::npos);
  CHECK(refused("qwen3-next-80b-a3b", "4").find("Mamba") == std::string::npos);
}
