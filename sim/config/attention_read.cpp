#include "sim/config/attention_read.h"

#include <nlohmann/json.hpp>

#include "sim/config/model_read.h"

namespace stepsim {
namespace {

using nlohmann::json;

constexpr Range rank_range{1, 1 << 16}, window_range{1, int64_t{1} << 32};

/// Keys and values have one head for each query head; a query head is the sum of its two parts.
void set_heads(Model& model) {
  model.query_groups = model.heads;
  model.head_dim = model.mla.qk_dim();
}

std::vector<bool> every_layer(const Model& model) {
  return std::vector<bool>(static_cast<size_t>(model.layers), true);
}

/// `layer_types`: one name for each layer.
std::vector<bool> limited_by_name(const Model& model, const Reader& config) {
  const std::string key = "layer_types";
  std::vector<bool> layers;
  for (const std::string& name : config.strings(key)) {
    if (name != "full_attention" && name != "sliding_attention")
      config.fail(key, "unknown kind of layer '" + printable(name) +
                           "'; valid: full_attention, sliding_attention");
    layers.push_back(name == "sliding_attention");
  }
  if (layers.size() != static_cast<size_t>(model.layers))
    config.fail(key, "must name each of " + std::to_string(model.layers) + " layers; it names " +
                         std::to_string(layers.size()));
  return layers;
}

/// Bridge: a window is [keys before, keys after], or the number of keys before.
std::optional<int64_t> keys_before(const Reader& section) {
  const std::string key = "window_size";
  const json* value = section.find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return section.required_int(key, window_range);
  if (value->size() != 2 || !value->at(0).is_number_integer() ||
      !value->at(1).is_number_integer() || value->at(0) < -1 || value->at(0) > window_range.high)
    section.fail(key,
                 "must be [keys before, keys after]; got " + printable(section.text_of(key), 60));
  return value->at(0).get<int64_t>();
}

/// Llama 4: a query sees its own chunk, at most `attention_chunk_size` keys and half of that on
/// average; layers without a rotary embedding see everything.
void read_chunks(Model& model, const Reader& config) {
  const auto tokens = config.optional_int("attention_chunk_size", window_range);
  if (!tokens) return;
  model.window.tokens = *tokens;
  model.window.chunked = true;
  const int every = config.integer("no_rope_layer_interval", 4, layers_range);
  for (int i = 0; i < model.layers; ++i) model.window.layers.push_back((i + 1) % every != 0);
}

}  // namespace

bool read_latent_attention(Model& model, const Reader& config, const FamilyRow& family) {
  if (!family.latent) {
    if (config.optional_int("kv_lora_rank", {0, rank_range.high}).value_or(0) > 0)
      config.fail("kv_lora_rank", "multi-latent attention, which the family '" +
                                      std::string(family.model_type) + "' has not");
    return false;
  }
  Mla& mla = model.mla;
  mla.kv_lora_rank = config.required_int("kv_lora_rank", rank_range);
  mla.q_lora_rank = config.optional_int("q_lora_rank", rank_range).value_or(0);
  mla.qk_nope_head_dim = config.required_int("qk_nope_head_dim", head_dim_range);
  mla.qk_rope_head_dim = config.required_int("qk_rope_head_dim", head_dim_range);
  mla.v_head_dim = config.required_int("v_head_dim", head_dim_range);
  set_heads(model);
  return true;
}

void override_latent_attention(Model& model, const Reader& section) {
  Mla& mla = model.mla;
  const bool on = section.boolean("multi_latent_attention", mla.present());
  if (!on) {
    mla = Mla{};
    return;
  }
  // Megatron-Core's MLATransformerConfig.
  if (!mla.present())
    mla = {.q_lora_rank = 512,
           .kv_lora_rank = 512,
           .qk_nope_head_dim = 128,
           .qk_rope_head_dim = 64,
           .v_head_dim = 128};
  mla.q_lora_rank =
      section.optional_int("q_lora_rank", {0, rank_range.high}).value_or(mla.q_lora_rank);
  mla.kv_lora_rank = section.optional_int("kv_lora_rank", rank_range).value_or(mla.kv_lora_rank);
  mla.qk_nope_head_dim =
      section.optional_int("qk_head_dim", head_dim_range).value_or(mla.qk_nope_head_dim);
  mla.qk_rope_head_dim =
      section.optional_int("qk_pos_emb_head_dim", head_dim_range).value_or(mla.qk_rope_head_dim);
  mla.v_head_dim = section.optional_int("v_head_dim", head_dim_range).value_or(mla.v_head_dim);
  set_heads(model);
}

void read_window(Model& model, const Reader& config, const FamilyRow& family) {
  if (family.window == WindowRule::none) return;
  if (family.window == WindowRule::chunked) return read_chunks(model, config);
  const bool used =
      family.window != WindowRule::upper || config.boolean("use_sliding_window", false);
  const auto tokens = config.optional_int("sliding_window", window_range);
  if (!tokens || !used) return;
  SlidingWindow& window = model.window;
  window.tokens = *tokens;
  if (config.has("layer_types")) {
    window.layers = limited_by_name(model, config);
    return;
  }
  const int first = family.window == WindowRule::upper
                        ? config.integer("max_window_layers", 0, {0, layers_range.high})
                        : 0;
  for (int i = 0; i < model.layers; ++i)
    window.layers.push_back(i >= first && (family.window != WindowRule::alternating || i % 2 == 0));
}

void override_window(Model& model, const Reader& section, int layers_before) {
  SlidingWindow& window = model.window;
  if (window.tokens > 0 && model.layers != layers_before) {
    // Another depth repeats the pattern.
    const std::vector<bool> pattern = window.layers;
    window.layers.clear();
    for (size_t i = 0; i < static_cast<size_t>(model.layers); ++i)
      window.layers.push_back(pattern[i % pattern.size()]);
  }
  const std::optional<int64_t> before = keys_before(section);
  if (before && *before < 0) {
    window = SlidingWindow{};
  } else if (before) {
    // Transformer Engine counts the keys before a query; Hugging Face the query's own key too.
    window.tokens = *before + 1;
    window.chunked = false;
    if (window.layers.empty()) window.layers = every_layer(model);
  }
  const std::string key = "window_attn_skip_freq";
  const json* skip = section.find(key);
  if (skip == nullptr || window.tokens == 0) return;
  // Megatron-Core: n = every n-th layer, the n-th first, sees everything; a list holds 1 = limited.
  if (!skip->is_array()) {
    const auto every = static_cast<int>(section.required_int(key, layers_range));
    for (int i = 0; i < model.layers; ++i)
      window.layers[static_cast<size_t>(i)] = (i + 1) % every != 0;
    return;
  }
  if (skip->size() != window.layers.size())
    section.fail(key, "must hold one 0 or 1 for each of " + std::to_string(model.layers) +
                          " layers; it holds " + std::to_string(skip->size()));
  for (size_t i = 0; i < skip->size(); ++i) {
    const json& item = skip->at(i);
    if (!(item.is_number_integer() && (item == 0 || item == 1)) && !item.is_boolean())
      section.fail(key, "must hold only 0 (sees everything) and 1 (limited)");
    window.layers[i] = item.is_boolean() ? item.get<bool>() : item == 1;
  }
}

}  // namespace stepsim
