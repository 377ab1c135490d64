// Experts, latent attention, windows and the like: files as they are on Hugging Face, exact counts,
// Bridge's keys over them, and what a run still refuses.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/config/document.h"
#include "sim/config/model_gaps.h"
#include "sim/config/model_read.h"
#include "tests/config/small.h"

using namespace stepsim;
using nlohmann::json;

namespace {

Model architecture(const json& config) {
  const Document document = parse_document(config.dump(), "config.json");
  return read_architecture(Reader(document, ""), "m");
}

/// The message of the Error that a config raises.
std::string refusal_of(const json& config) {
  try {
    architecture(config);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

Model overridden(const std::string& name, const json& section) {
  Model model = read_model(name, find_data());
  const Document document = parse_document(json{{"model", section}}.dump(), "x.json");
  override_architecture(model, Reader(document, "/model"), false);
  return model;
}

std::string override_refusal(const std::string& name, const json& section) {
  try {
    overridden(name, section);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

int count(const std::vector<bool>& flags) {
  return static_cast<int>(std::count(flags.begin(), flags.end(), true));
}

json with(json config, const json& more) {
  config.update(more);
  return config;
}

// Small files of two families; every test states what it adds.
const json deepseek = json::parse(R"({
  "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": 6,
  "hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4,
  "vocab_size": 1000, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
  "n_shared_experts": 1, "first_k_dense_replace": 2, "moe_layer_freq": 1, "q_lora_rank": null,
  "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_group": 4,
  "topk_group": 2, "topk_method": "noaux_tc", "ep_size": 1, "head_dim": 4,
  "rope_scaling": {"type": "yarn"}, "quantization_config": {"quant_method": "fp8"}})");
const json qwen = json::parse(R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_hidden_layers": 6,
  "hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
  "head_dim": 16, "vocab_size": 1000, "num_experts": 8, "num_experts_per_tok": 2,
  "moe_intermediate_size": 32, "decoder_sparse_step": 1, "mlp_only_layers": [],
  "sliding_window": null, "use_sliding_window": false})");

}  // namespace

// Totals as on the models' Hugging Face pages (safetensors), less what is not trained: DeepSeek's,
// Kimi's, Moonlight's and GLM's router biases (experts x MoE layers), prediction modules.
TEST_CASE("exact parameter counts, all and active") {
  struct Row {
    const char* name;
    int64_t all, active;
  };
  for (const Row& row : {Row{"mixtral-8x7b", 46702792704, 12879925248},
                         {"mixtral-8x22b", 140620634112, 39152031744},
                         {"qwen3-30b-a3b", 30532122624, 3353032704},
                         {"qwen3-235b-a22b", 235093634560, 22190763520},
                         {"deepseek-v2", 235741434880, 21375800320},
                         {"deepseek-v2-lite", 15706484224, 2661150208},
                         {"deepseek-v3", 671026419200 - 58 * 256, 37552282624},
                         {"kimi-k2", 1026408232448 - 60 * 384, 32861477888},
                         {"moonlight-16b-a3b", 15960108544, 2914774528},
                         {"gpt-oss-20b", 20914757184, 4187440704},
                         {"gpt-oss-120b", 116829156672, 5711982912},
                         {"olmoe-7b", 6919161856, 1282017280},
                         {"glm-4.5", 352797814784, 33632251904},
                         {"glm-4.5-air", 106852245504, 13424123904},
                         {"gemma-7b", 8537680896, 8537680896},
                         {"gemma2-9b", 9241705984, 9241705984},
                         {"gemma2-27b", 27227128320, 27227128320},
                         {"gpt-neox-20b", 20554567680, 20554567680},
                         {"llama3.1-8b", 8030261248, 8030261248},
                         {"qwen3-0.6b", 596049920, 596049920},
                         {"qwen3-1.7b", 1720574976, 1720574976},
                         {"qwen3-4b", 4022468096, 4022468096},
                         {"qwen3-8b", 8190735360, 8190735360},
                         {"qwen3-14b", 14768307200, 14768307200},
                         {"qwen3-32b", 32762123264, 32762123264}}) {
    CAPTURE(row.name);
    Model model = read_model(row.name, find_data());
    model.vocab_padding = false;
    CHECK(parameter_count(model, 1) == row.all);
    CHECK(active_parameter_count(model, 1) == row.active);
    int64_t layers = 0;
    for (int i = 0; i < model.layers; ++i) layers += layer_parameter_count(model, i);
    const int64_t ends =
        row.all - layers - (model.tied_embeddings ? 1 : 2) * model.vocab * model.hidden;
    CHECK(ends == model.hidden * (model.normalization == Normalization::layer_norm ? 2 : 1));
  }
}

// By hand: 2*64*64 for the projection, 3 norms, one more layer like the last.
TEST_CASE("multi-token prediction modules count apart") {
  const Model plain = architecture(deepseek);
  const Model deep = architecture(with(deepseek, {{"num_nextn_predict_layers", 2}}));
  CHECK(plain.mtp_layers == 0);
  CHECK(mtp_parameter_count(plain) == 0);
  CHECK(parameter_count(deep, 1) == parameter_count(plain, 1));
  CHECK(mtp_parameter_count(deep) == 2 * (2 * 64 * 64 + 3 * 64 + layer_parameter_count(deep, 5)));
  // DeepSeek-V3's module, of which the paper counts 14 billion with copies of embedding and head.
  CHECK(mtp_parameter_count(read_model("deepseek-v3", find_data())) == 11610067968);
}

TEST_CASE("a layer by hand: latent attention and experts") {
  const Model m = architecture(deepseek);
  // q 64 x 4*16; kv down 64 x (16+4), norm 16, up 16 x 4*(12+8); out 4*8 x 64; two norms.
  const int64_t attention = 64 * 64 + 64 * 20 + 16 + 16 * 80 + 32 * 64, norms = 2 * 64;
  CHECK(layer_parameter_count(m, 1) == attention + norms + 3 * 64 * 256);
  CHECK(layer_parameter_count(m, 2) == attention + norms + 8 * 64 + (8 + 1) * 3 * 64 * 32);
  CHECK(m.head_dim == 16);
  CHECK(m.query_groups == 4);
  CHECK(m.mla.q_lora_rank == 0);
  CHECK(m.moe.expert_bias);
  CHECK(m.moe.groups == 4);
  CHECK(m.moe.groups_top_k == 2);
  const Model ranked = architecture(with(deepseek, {{"q_lora_rank", 24}}));
  CHECK(layer_parameter_count(ranked, 1) - layer_parameter_count(m, 1) ==
        64 * 24 + 24 + 24 * 64 - 64 * 64);
  CHECK_FALSE(architecture(with(deepseek, {{"topk_method", "greedy"}})).moe.expert_bias);
}

TEST_CASE("a layer by hand: biases, sinks, norms over all heads, norms behind") {
  const json sizes = {{"num_hidden_layers", 2},   {"hidden_size", 64},
                      {"intermediate_size", 32},  {"num_attention_heads", 4},
                      {"num_key_value_heads", 2}, {"head_dim", 16},
                      {"vocab_size", 1000}};
  const int64_t attention = 64 * (64 + 2 * 32) + 64 * 64, norms = 2 * 64, expert = 3 * 64 * 32;
  const Model oss = architecture(with(sizes, {{"model_type", "gpt_oss"},
                                              {"num_local_experts", 4},
                                              {"experts_per_token", 2},
                                              {"attention_bias", true},
                                              {"sliding_window", 128}}));
  CHECK(layer_parameter_count(oss, 0) ==
        attention + (64 + 2 * 32) + 64 + 4 + norms + 4 * 64 + 4 + 4 * (expert + 2 * 32 + 64));
  CHECK(oss.moe.top_k == 2);
  CHECK(oss.window.layers == std::vector<bool>{true, false});
  const Model olmoe = architecture(
      with(sizes, {{"model_type", "olmoe"}, {"num_experts", 4}, {"num_experts_per_tok", 2}}));
  CHECK(layer_parameter_count(olmoe, 0) == attention + 64 + 32 + norms + 4 * 64 + 4 * expert);
  const Model gemma = architecture(with(sizes, {{"model_type", "gemma2"}, {"sliding_window", 99}}));
  CHECK(layer_parameter_count(gemma, 0) == attention + 2 * norms + 3 * 64 * 32);
  CHECK(gemma.window.layers == std::vector<bool>{true, false});
  const Model glm = architecture(with(sizes, {{"model_type", "glm4"}, {"attention_bias", true}}));
  CHECK(layer_parameter_count(glm, 0) == attention + 128 + 2 * norms + 3 * 64 * 32);
  const Model neox = architecture(with(sizes, {{"model_type", "gpt_neox"}}));
  CHECK(neox.parallel_residual);
  CHECK_FALSE(
      architecture(with(sizes, {{"model_type", "gpt_neox"}, {"use_parallel_residual", false}}))
          .parallel_residual);
}

TEST_CASE("which layers have experts") {
  CHECK(architecture(deepseek).moe.layers == std::vector<bool>{0, 0, 1, 1, 1, 1});
  CHECK(architecture(with(deepseek, {{"moe_layer_freq", 2}})).moe.layers ==
        std::vector<bool>{0, 0, 1, 0, 1, 0});
  CHECK(count(architecture(qwen).moe.layers) == 6);
  CHECK(architecture(with(qwen, {{"decoder_sparse_step", 2}})).moe.layers ==
        std::vector<bool>{0, 1, 0, 1, 0, 1});
  CHECK(architecture(with(qwen, {{"mlp_only_layers", {0, 5}}})).moe.layers ==
        std::vector<bool>{0, 1, 1, 1, 1, 0});
  json without = deepseek;
  without.erase("first_k_dense_replace");
  CHECK(count(architecture(without).moe.layers) == 3);  // DeepSeek-V3's default is 3
}

TEST_CASE("Llama 4 and Grok-1") {
  const json sizes = {{"model_type", "llama4_text"}, {"num_hidden_layers", 8},
                      {"hidden_size", 64},           {"intermediate_size", 32},
                      {"intermediate_size_mlp", 96}, {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},    {"head_dim", 16},
                      {"vocab_size", 1000},          {"num_local_experts", 4},
                      {"num_experts_per_tok", 1},    {"interleave_moe_layer_step", 2},
                      {"attention_chunk_size", 512}};
  const Model llama = architecture(sizes);
  const int64_t attention = 64 * (64 + 2 * 32) + 64 * 64;
  CHECK(llama.moe.layers == std::vector<bool>{0, 1, 0, 1, 0, 1, 0, 1});
  CHECK(layer_parameter_count(llama, 0) == attention + 2 * 64 + 3 * 64 * 96);
  CHECK(layer_parameter_count(llama, 1) == attention + 2 * 64 + 4 * 64 + (4 + 1) * 3 * 64 * 32);
  CHECK(llama.window.tokens == 512);
  CHECK(llama.window.layers == std::vector<bool>{1, 1, 1, 0, 1, 1, 1, 0});
  const Model grok = architecture(with(sizes, {{"model_type", "grok-1"},
                                               {"intermediate_size_mlp", nullptr},
                                               {"interleave_moe_layer_step", nullptr}}));
  CHECK(layer_parameter_count(grok, 0) == attention + 4 * 64 + 4 * 64 + 4 * 3 * 64 * 32);
}

TEST_CASE("which layers have a window") {
  const json sliding = {{"sliding_window", 100}, {"use_sliding_window", true}};
  CHECK(architecture(with(qwen, {{"sliding_window", 100}})).window.tokens == 0);
  CHECK(count(architecture(with(qwen, sliding)).window.layers) == 6);
  CHECK(architecture(with(with(qwen, sliding), {{"max_window_layers", 4}})).window.layers ==
        std::vector<bool>{0, 0, 0, 0, 1, 1});
  CHECK(read_model("gpt-oss-20b", find_data()).window.tokens == 128);
  CHECK(count(read_model("gpt-oss-20b", find_data()).window.layers) == 12);
}

TEST_CASE("families by the class in `architectures`") {
  json config = qwen;
  config.erase("model_type");
  CHECK(architecture(config).qk_norm);
  config["model_type"] = "qwen3_moe_of_somebody";
  CHECK(architecture(config).moe.present());
  config.erase("architectures");
  CHECK(refusal_of(config).starts_with("config.json#/model_type: unknown decoder family"));
  config.erase("model_type");
  CHECK(refusal_of(config).starts_with("config.json#/model_type: is missing"));
}

TEST_CASE("refusals point at the key") {
  struct Row {
    const json& base;
    json more;
    const char* line;
  };
  for (const Row& row :
       {Row{deepseek, {{"n_routed_experts", "8"}}, "#/n_routed_experts: must be an integer"},
        {deepseek, {{"num_experts_per_tok", 0}}, "#/num_experts_per_tok: must be an integer"},
        {deepseek,
         {{"num_experts_per_tok", 9}},
         "#/num_experts_per_tok: must be at most the number of experts, 8; got 9"},
        {deepseek, {{"moe_intermediate_size", nullptr}}, "#/moe_intermediate_size: is missing"},
        {deepseek, {{"n_routed_experts", nullptr}}, "#/n_routed_experts: is missing"},
        {deepseek, {{"kv_lora_rank", nullptr}}, "#/kv_lora_rank: is missing"},
        {deepseek, {{"kv_lora_rank", 0}}, "#/kv_lora_rank: must be an integer from 1"},
        {deepseek, {{"v_head_dim", 1 << 20}}, "#/v_head_dim: must be an integer"},
        {deepseek, {{"first_k_dense_replace", 7}}, "#/first_k_dense_replace: must be an integer"},
        {deepseek, {{"n_group", 3}}, "#/n_group: must divide 8 experts; got 3"},
        {deepseek, {{"topk_group", 5}}, "#/topk_group: must be at most n_group"},
        {deepseek, {{"num_nextn_predict_layers", -1}}, "#/num_nextn_predict_layers: must be"},
        {qwen, {{"mlp_only_layers", {6}}}, "#/mlp_only_layers: must be a list of layer indices"},
        {qwen, {{"mlp_only_layers", 1}}, "#/mlp_only_layers: must be a list of layer indices"},
        {qwen, {{"decoder_sparse_step", 0}}, "#/decoder_sparse_step: must be an integer"},
        {qwen, {{"use_sliding_window", true}, {"sliding_window", 0}}, "#/sliding_window: must be"},
        {qwen,
         {{"use_sliding_window", true}, {"sliding_window", 8}, {"layer_types", {"full_attention"}}},
         "#/layer_types: must name each of 6 layers; it names 1"},
        {qwen,
         {{"use_sliding_window", true}, {"sliding_window", 8}, {"layer_types", {"mamba"}}},
         "#/layer_types: unknown kind of layer 'mamba'"},
        {qwen, {{"kv_lora_rank", 8}}, "#/kv_lora_rank: multi-latent attention, which the family"},
        {qwen, {{"model_type", "llama"}}, "#/num_experts: a mixture-of-experts model, which"},
        {qwen, {{"moe_latent_size", 8}}, "#/moe_latent_size: experts behind a latent projection"},
        {qwen, {{"linear_num_key_heads", 8}}, "#/linear_num_key_heads: linear-attention layers"},
        {qwen,
         {{"num_experts", 16384}, {"hidden_size", 1 << 20}, {"moe_intermediate_size", 1 << 24}},
         "#/num_experts: gives experts of more than 1e16 parameters"}}) {
    CAPTURE(row.line);
    CHECK(refusal_of(with(row.base, row.more)).find(row.line) != std::string::npos);
  }
}

TEST_CASE("Bridge's keys over a model") {
  const Model cut = overridden("deepseek-v3", {{"num_layers", 5}});
  CHECK(cut.moe.layers == std::vector<bool>{0, 0, 0, 1, 1});
  const Model other = overridden("qwen3-30b-a3b", {{"num_moe_experts", 64},
                                                   {"moe_router_topk", 4},
                                                   {"moe_ffn_hidden_size", 1024},
                                                   {"moe_shared_expert_intermediate_size", 512},
                                                   {"moe_shared_expert_gate", true},
                                                   {"moe_router_dtype", "fp32"},
                                                   {"moe_layer_freq", 2},
                                                   {"mtp_num_layers", 1}});
  CHECK(other.moe.experts == 64);
  CHECK(other.moe.top_k == 4);
  CHECK(other.moe.router_fp32);
  CHECK(other.mtp_layers == 1);
  CHECK(count(other.moe.layers) == 24);
  CHECK(other.moe.at(0));
  CHECK(layer_parameter_count(other, 0) - layer_parameter_count(other, 1) ==
        64 * 2048 + (64 * 1024 + 512) * 3 * 2048 + 2048 - 3 * 2048 * 6144);
  // Experts on a dense model: Megatron-Core's defaults. And off again.
  const Model mixed = overridden("llama3-8b", {{"num_moe_experts", 8}});
  CHECK(mixed.moe.top_k == 2);
  CHECK(mixed.moe.ffn_hidden == 14336);
  CHECK(mixed.moe.layers.size() == 32);
  CHECK_FALSE(overridden("mixtral-8x7b", {{"num_moe_experts", 0}}).moe.present());
  // A dense model's section carries these as well.
  CHECK_FALSE(overridden("llama3-8b", {{"moe_router_topk", 2},
                                       {"moe_ffn_hidden_size", 14336},
                                       {"moe_layer_freq", 1},
                                       {"num_moe_experts", nullptr}})
                  .moe.present());
  const Model latent = overridden(
      "llama3-8b", {{"multi_latent_attention", true}, {"q_lora_rank", 0}, {"v_head_dim", 64}});
  CHECK(latent.mla.kv_lora_rank == 512);
  CHECK(latent.mla.q_lora_rank == 0);
  CHECK(latent.mla.v_head_dim == 64);
  CHECK(latent.head_dim == 192);
  CHECK_FALSE(overridden("deepseek-v2-lite", {{"multi_latent_attention", false}}).mla.present());
  CHECK(overridden("deepseek-v3", {{"kv_lora_rank", 256}}).mla.kv_lora_rank == 256);
  const Model narrow = overridden(
      "llama3-8b", {{"window_size", {127, 0}}, {"window_attn_skip_freq", 4}, {"num_layers", 8}});
  CHECK(narrow.window.tokens == 128);
  CHECK(narrow.window.layers == std::vector<bool>{1, 1, 1, 0, 1, 1, 1, 0});
  CHECK(overridden("gpt-oss-20b", {{"num_layers", 3}}).window.layers == std::vector<bool>{1, 0, 1});
  CHECK(overridden("gpt-oss-20b", {{"window_size", {-1, 0}}}).window.tokens == 0);
  CHECK(overridden("llama3-8b", {{"softmax_type", "learnable"}}).attention_sinks);

  CHECK(override_refusal("qwen3-30b-a3b", {{"moe_router_topk", 200}})
            .starts_with("x.json#/model/moe_router_topk: must be at most the number of experts"));
  CHECK(override_refusal("qwen3-30b-a3b", {{"moe_layer_freq", {1, 0}}})
            .starts_with("x.json#/model/moe_layer_freq: must hold one 0 or 1 for each of 48"));
  CHECK(override_refusal("llama3-8b", {{"window_size", {1, 2, 3}}})
            .starts_with("x.json#/model/window_size: must be [keys before, keys after]"));
  CHECK(override_refusal("llama3-8b", {{"multi_latent_attention", 1}})
            .starts_with("x.json#/model/multi_latent_attention: must be true or false"));
}

TEST_CASE("what is not simulated is recorded, and refused or listed") {
  using Phrases = std::vector<std::string>;
  const auto gaps = [](const std::string& name) {
    return read_model(name, find_data()).not_simulated;
  };
  CHECK(gaps("llama3-8b").empty());
  for (const char* model : {"mixtral-8x7b", "deepseek-v3", "gpt-oss-20b", "gemma2-9b",
                            "gpt-neox-20b", "nemotron-h-56b", "qwen3-next-80b-a3b"}) {
    CAPTURE(model);
    CHECK(gaps(model).empty());
    CHECK(simulates(read_model(model, find_data())));
  }
  Model m = read_model("gpt-neox-20b", find_data());
  m.moe.experts = 8;
  record_gaps(m);
  CHECK(m.not_simulated == Phrases{"parallel residual around experts"});
  CHECK(!simulates(m));
  CHECK(small({"model.hf_config=gemma2-9b"}).not_modelled.empty());
  CHECK(small({"model.hf_config=gpt-neox-20b"}).not_modelled.empty());
}
