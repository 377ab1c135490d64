#include "sim/config/model_read.h"

#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/table.h"
#include "sim/config/attention_read.h"
#include "sim/config/files.h"
#include "sim/config/hybrid_read.h"
#include "sim/config/model_families.h"
#include "sim/config/model_gaps.h"
#include "sim/config/moe_read.h"
#include "sim/config/read.h"
#include "sim/config/spellings.h"

namespace stepsim {
namespace {

using nlohmann::json;

struct ActivationRow {
  std::string_view name;
  Activation activation;
};
constexpr std::array<ActivationRow, 11> activation_rows{{
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"gelu", Activation::gelu},
    {"gelu_new", Activation::gelu},
    {"gelu_fast", Activation::gelu},
    {"gelu_pytorch_tanh", Activation::gelu},
    {"quick_gelu", Activation::gelu},
    {"fast_gelu", Activation::gelu},
    {"relu", Activation::relu},
    {"relu2", Activation::squared_relu},
    {"squared_relu", Activation::squared_relu},
}};

Activation activation_named(const Reader& config, const std::string& key, Activation fallback) {
  if (!config.has(key)) return fallback;
  const std::string name = config.string(key, "");
  std::vector<std::string> names;
  for (const ActivationRow& row : activation_rows) {
    if (row.name == name) return row.activation;
    names.emplace_back(row.name);
  }
  config.fail(key, "unknown activation '" + printable(name) + "'" + suggestion(name, names));
}

bool matters(const json* value) {
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return value->get<double>() > 1;
  return !value->empty();
}

/// One clear line for architectures whose sizes this release does not know.
void refuse_other_architectures(const Reader& config) {
  if (config.has("text_config"))
    config.fail("text_config", "a multimodal model; this release knows decoder transformers only");
  if (matters(config.find("mamba_d_state")))
    config.fail("mamba_d_state", "state-space layers of a family that this release does not know");
  if (matters(config.find("incomplete")))
    config.fail("incomplete", "the architecture is not published; it cannot be simulated");
}

bool dropout_in(const Reader& config) {
  for (const char* key : {"hidden_dropout", "resid_pdrop", "dropout"}) {
    const json* value = config.find(key);
    if (value != nullptr && value->is_boolean()) return value->get<bool>();
    if (value != nullptr) return config.number(key, 0, 0, 1) > 0;
  }
  return false;
}

PositionEmbedding position_named(const Reader& config, const std::string& key,
                                 PositionEmbedding fallback) {
  static const std::vector<std::string> names{"rope", "learned", "learned_absolute", "alibi",
                                              "none"};
  const std::string name = config.choice(key, "", names);
  if (name.empty()) return fallback;
  // "none" costs nothing at run time, which is what alibi costs inside a fused attention kernel.
  return name == "rope"                ? PositionEmbedding::rope
         : name.starts_with("learned") ? PositionEmbedding::learned
                                       : PositionEmbedding::alibi;
}

constexpr Spellings heads_spellings{"num_attention_heads", "n_head", "n_heads"};

/// Key/value groups and the width of a head.
void read_heads(Model& model, const Reader& config) {
  model.query_groups =
      static_cast<int>(optional_size(config, {"num_key_value_heads", "num_kv_heads"}, heads_range)
                           .value_or(model.heads));
  if (model.heads % model.query_groups != 0)
    config.fail("num_key_value_heads", "must divide " + std::to_string(model.heads) +
                                           " attention heads; got " +
                                           std::to_string(model.query_groups));
  const std::optional<int64_t> head_dim =
      optional_size(config, {"head_dim", "kv_channels"}, head_dim_range);
  if (!head_dim && model.hidden % model.heads != 0)
    config.fail(spelling(config, heads_spellings),
                "must divide hidden size " + std::to_string(model.hidden) +
                    " when head_dim is not given; got " + std::to_string(model.heads));
  model.head_dim = head_dim.value_or(model.hidden / model.heads);
  if (!head_dim && model.head_dim > head_dim_range.high)
    config.fail("num_attention_heads", "gives a head of " + std::to_string(model.head_dim) +
                                           " elements; the limit is " +
                                           std::to_string(head_dim_range.high));
}

}  // namespace

Model read_architecture(const Reader& config, const std::string& name) {
  refuse_other_architectures(config);
  const FamilyRow& family = family_of(config);
  Model model;
  model.name = name;
  model.starting_layout = read_starting_layout(config);
  model.layers = static_cast<int>(required_size(
      config, {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, layers_range));
  model.hidden =
      required_size(config, {"hidden_size", "n_embd", "n_embed", "d_model"}, hidden_range);
  model.heads = static_cast<int>(required_size(config, heads_spellings, heads_range));
  if (!read_latent_attention(model, config, family)) read_heads(model, config);
  const std::optional<int64_t> ffn = optional_size(
      config, {"intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim"}, ffn_range);
  if (!ffn && !family.ffn_is_four_hidden)
    config.fail("intermediate_size", "is missing; expected an integer");
  model.ffn_hidden = ffn.value_or(4 * model.hidden);
  model.vocab = config.required_int("vocab_size", vocab_range);
  model.vocab_divisor = config.integer("make_vocab_size_divisible_by", 128, divisor_range);

  model.gated_mlp = config.boolean("mlp_gated", family.gated);
  model.tied_embeddings = config.boolean("tie_word_embeddings", family.tied);
  // GPT-NeoX and LLaMA-like configs say attention_bias for the q, k, v projections and mlp_bias for
  // the rest.
  const bool no_bias = config.boolean("no_bias", false);
  model.linear_bias = !no_bias && config.boolean("mlp_bias", family.linear_bias);
  model.qkv_bias = !no_bias && config.boolean("attention_bias", family.qkv_bias);
  model.qk_norm = config.boolean("qk_norm", config.boolean("use_qk_norm", family.qk_norm));
  model.qk_norm_whole = family.qk_norm_whole;
  model.post_norms = family.post_norms;
  model.parallel_residual = config.boolean("use_parallel_residual", family.parallel_residual);
  model.attention_sinks = family.sinks;
  model.clamped_glu = config.number("swiglu_limit", family.clamped_glu ? 1 : 0, 0, 1e6) > 0;
  model.hidden_dropout = dropout_in(config);
  model.activation = family.activation;
  for (const char* key : {"activation", "activation_function", "hidden_activation", "hidden_act"})
    model.activation = activation_named(config, key, model.activation);
  model.normalization = family.norm;
  model.position = position_named(config, "position_embedding", family.position);
  if (model.position == PositionEmbedding::learned)
    model.max_positions =
        optional_size(config, {"max_position_embeddings", "n_positions", "n_ctx"}, positions_range)
            .value_or(family.positions);
  read_experts(model, config, family);
  read_window(model, config, family);
  model.mtp_layers = config.integer("num_nextn_predict_layers", 0, mtp_range);
  read_hybrid(model, config, family);
  record_gaps(model);
  return model;
}

void override_architecture(Model& model, const Reader& section, bool from_scratch) {
  if (from_scratch) {
    // Megatron-Core's TransformerConfig and GPTModel defaults.
    model = Model{};
    model.gated_mlp = false;
    model.tied_embeddings = model.linear_bias = model.hidden_dropout = true;
    model.activation = Activation::gelu;
    model.normalization = Normalization::layer_norm;
    model.position = PositionEmbedding::learned;
    for (const char* key : {"num_layers", "hidden_size", "num_attention_heads", "vocab_size"})
      if (!section.has(key))
        section.fail(key, "is missing; expected an integer (or name a model with model.hf_config)");
    model.name = "custom";
  }
  const int layers_before = model.layers;
  const bool plain_heads = from_scratch || model.head_dim * model.heads == model.hidden;
  const bool plain_groups = from_scratch || model.query_groups == model.heads;
  const bool plain_ffn = from_scratch;
  model.layers = section.integer("num_layers", model.layers, layers_range);
  model.hidden = section.optional_int("hidden_size", hidden_range).value_or(model.hidden);
  model.heads = section.integer("num_attention_heads", model.heads, heads_range);
  model.query_groups = section.integer(
      "num_query_groups", plain_groups ? model.heads : model.query_groups, heads_range);
  if (model.heads % model.query_groups != 0)
    section.fail(section.has("num_query_groups") ? "num_query_groups" : "num_attention_heads",
                 "num_query_groups must divide num_attention_heads; got " +
                     std::to_string(model.query_groups) + " groups, " +
                     std::to_string(model.heads) + " heads");
  if (plain_heads && !section.has("kv_channels") && model.hidden % model.heads != 0)
    section.fail("num_attention_heads", "must divide hidden_size " + std::to_string(model.hidden) +
                                            " when kv_channels is not given; got " +
                                            std::to_string(model.heads));
  model.head_dim = section.optional_int("kv_channels", head_dim_range)
                       .value_or(plain_heads ? model.hidden / model.heads : model.head_dim);
  if (model.head_dim > head_dim_range.high)
    section.fail("kv_channels", "must be at most " + std::to_string(head_dim_range.high));
  model.ffn_hidden = section.optional_int("ffn_hidden_size", ffn_range)
                         .value_or(plain_ffn ? 4 * model.hidden : model.ffn_hidden);
  model.vocab = section.optional_int("vocab_size", vocab_range).value_or(model.vocab);
  model.vocab_divisor =
      section.integer("make_vocab_size_divisible_by", model.vocab_divisor, divisor_range);
  model.vocab_padding = section.boolean("should_pad_vocab", model.vocab_padding);
  model.gated_mlp =
      section.boolean("gated_linear_unit", section.boolean("mlp_gated", model.gated_mlp));
  model.tied_embeddings =
      section.boolean("share_embeddings_and_output_weights", model.tied_embeddings);
  model.linear_bias =
      section.boolean("add_bias_linear", model.linear_bias) && !section.boolean("no_bias", false);
  model.qkv_bias =
      section.boolean("add_qkv_bias", model.qkv_bias) || (from_scratch && model.linear_bias);
  model.qk_norm = section.boolean("qk_layernorm", model.qk_norm);
  if (section.has("hidden_dropout")) model.hidden_dropout = dropout_in(section);
  const json* activation = section.find("activation_func");
  if (activation != nullptr && activation->is_string())
    model.activation = activation_named(section, "activation_func", model.activation);
  static const std::vector<std::string> norms{"RMSNorm", "LayerNorm"};
  if (const std::string norm = section.choice("normalization", "", norms); !norm.empty())
    model.normalization = norm == "RMSNorm" ? Normalization::rms_norm : Normalization::layer_norm;
  model.position = position_named(section, "position_embedding_type", model.position);
  model.max_positions = section.optional_int("max_position_embeddings", positions_range)
                            .value_or(model.max_positions);
  if (model.position != PositionEmbedding::learned) model.max_positions = 0;
  override_latent_attention(model, section);
  override_experts(model, section, layers_before);
  if (model.layers != layers_before) resize_hybrid(model);
  override_window(model, section, layers_before);
  model.mtp_layers = section.integer("mtp_num_layers", model.mtp_layers, mtp_range);
  static const std::vector<std::string> softmaxes{"vanilla", "off-by-one", "learnable"};
  if (const std::string kind = section.choice("softmax_type", "", softmaxes); !kind.empty())
    model.attention_sinks = kind == "learnable";
  model.clamped_glu =
      section.number("activation_func_clamp_value", model.clamped_glu ? 1 : 0, 0, 1e6) > 0;
  record_gaps(model);
}

Model read_model(const std::string& name_or_path, const DataPaths& data) {
  const Located found = locate_model(name_or_path, data);
  if (!found.problem.empty()) throw Error(printable(name_or_path), "", found.problem);
  const Document document = load_document(found.file);
  const std::string stem = found.file.stem().string();
  return read_architecture(
      Reader(document, ""),
      stem == "config" ? std::filesystem::absolute(found.file).parent_path().filename().string()
                       : stem);
}

}  // namespace stepsim
