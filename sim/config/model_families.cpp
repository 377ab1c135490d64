#include "sim/config/model_families.h"

#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/table.h"

namespace stepsim {
namespace {

constexpr auto gelu = Activation::gelu;
constexpr auto layer_norm = Normalization::layer_norm;
constexpr auto learned = PositionEmbedding::learned, alibi = PositionEmbedding::alibi;

constexpr std::array<FamilyRow, 27> family_rows{{
    {.model_type = "llama", .architecture = "LlamaForCausalLM"},
    {.model_type = "llama4_text",
     .architecture = "Llama4ForCausalLM",
     .window = WindowRule::chunked,
     .experts = true,
     .ffn_is_expert = true,
     .shared_experts = 1,
     .sigmoid_scores = true},
    {.model_type = "mistral", .architecture = "MistralForCausalLM", .window = WindowRule::all},
    {.model_type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .window = WindowRule::all,
     .experts = true,
     .ffn_is_expert = true},
    {.model_type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .qkv_bias = true,
     .window = WindowRule::upper},
    {.model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .qk_norm = true,
     .window = WindowRule::upper},
    {.model_type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .qk_norm = true,
     .window = WindowRule::upper,
     .experts = true},
    {.model_type = "deepseek_v2",
     .architecture = "DeepseekV2ForCausalLM",
     .experts = true,
     .latent = true},
    {.model_type = "deepseek_v3",
     .architecture = "DeepseekV3ForCausalLM",
     .experts = true,
     .expert_bias = true,
     .sigmoid_scores = true,
     .first_dense = 3,
     .latent = true},
    {.model_type = "kimi_k2",
     .architecture = "KimiK2ForCausalLM",
     .experts = true,
     .expert_bias = true,
     .sigmoid_scores = true,
     .first_dense = 3,
     .latent = true},
    {.model_type = "gpt_oss",
     .architecture = "GptOssForCausalLM",
     .linear_bias = true,
     .qkv_bias = true,
     .window = WindowRule::alternating,
     .experts = true,
     .ffn_is_expert = true,
     .sinks = true,
     .clamped_glu = true},
    {.model_type = "olmoe",
     .architecture = "OlmoeForCausalLM",
     .qk_norm = true,
     .experts = true,
     .ffn_is_expert = true,
     .qk_norm_whole = true},
    {.model_type = "grok-1",
     .architecture = "Grok1ModelForCausalLM",
     .activation = gelu,
     .experts = true,
     .ffn_is_expert = true,
     .post_norms = true},
    {.model_type = "glm", .architecture = "GlmForCausalLM", .qkv_bias = true},
    {.model_type = "glm4", .architecture = "Glm4ForCausalLM", .qkv_bias = true, .post_norms = true},
    {.model_type = "glm4_moe",
     .architecture = "Glm4MoeForCausalLM",
     .experts = true,
     .expert_bias = true,
     .sigmoid_scores = true,
     .first_dense = 1},
    {.model_type = "gemma", .architecture = "GemmaForCausalLM", .activation = gelu, .tied = true},
    {.model_type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .activation = gelu,
     .tied = true,
     .window = WindowRule::alternating,
     .post_norms = true},
    {.model_type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .gated = false,
     .activation = gelu,
     .norm = layer_norm,
     .linear_bias = true,
     .qkv_bias = true,
     .position = learned,
     .tied = true,
     .ffn_is_four_hidden = true},
    {.model_type = "gpt_neox",
     .architecture = "GPTNeoXForCausalLM",
     .gated = false,
     .activation = gelu,
     .norm = layer_norm,
     .linear_bias = true,
     .qkv_bias = true,
     .ffn_is_four_hidden = true,
     .parallel_residual = true},
    {.model_type = "nemotron",
     .architecture = "NemotronForCausalLM",
     .gated = false,
     .activation = Activation::squared_relu,
     .norm = layer_norm},
    {.model_type = "nemotron_h",
     .architecture = "NemotronHForCausalLM",
     .gated = false,
     .activation = Activation::squared_relu,
     .position = alibi,  // none at all
     .experts = true,
     .expert_bias = true,
     .pattern = true},
    {.model_type = "qwen3_next",
     .architecture = "Qwen3NextForCausalLM",
     .qk_norm = true,
     .experts = true,
     .delta_layers = true,
     .shared_gate = true},
    {.model_type = "opt",
     .architecture = "OPTForCausalLM",
     .gated = false,
     .activation = Activation::relu,
     .norm = layer_norm,
     .linear_bias = true,
     .qkv_bias = true,
     .position = learned,
     .tied = true,
     .ffn_is_four_hidden = true,
     .positions = 2048},
    {.model_type = "bloom",
     .architecture = "BloomForCausalLM",
     .gated = false,
     .activation = gelu,
     .norm = layer_norm,
     .linear_bias = true,
     .qkv_bias = true,
     .position = alibi,
     .tied = true,
     .ffn_is_four_hidden = true},
    {.model_type = "mpt",
     .architecture = "MPTForCausalLM",
     .gated = false,
     .activation = gelu,
     .norm = layer_norm,
     .position = alibi,
     .tied = true,
     .ffn_is_four_hidden = true},
    {.model_type = "megatron",
     .architecture = "MegatronGPT",
     .gated = false,
     .activation = gelu,
     .norm = layer_norm,
     .linear_bias = true,
     .qkv_bias = true,
     .position = learned,
     .tied = true,
     .ffn_is_four_hidden = true},
}};

}  // namespace

std::span<const FamilyRow> families() { return family_rows; }

const FamilyRow& family_of(const Reader& config) {
  // Kimi-K2 and others name a family of their own and the class of another.
  std::vector<std::string> classes;
  if (config.has("architectures")) classes = config.strings("architectures");
  if (!config.has("model_type") && classes.empty()) config.required_string("model_type");
  const std::string type = config.string("model_type", "");
  std::vector<std::string> names;
  for (const FamilyRow& row : family_rows) {
    if (row.model_type == type) return row;
    names.emplace_back(row.model_type);
  }
  for (const FamilyRow& row : family_rows)
    for (const std::string& name : classes)
      if (row.architecture == name) return row;
  config.fail(config.has("model_type") ? "model_type" : "architectures",
              "unknown decoder family '" + printable(type.empty() ? classes.front() : type) + "'" +
                  suggestion(type, names));
}

}  // namespace stepsim
