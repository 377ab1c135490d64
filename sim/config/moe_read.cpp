#include "sim/config/moe_read.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/config/model_read.h"
#include "sim/config/spellings.h"

namespace stepsim {
namespace {

using nlohmann::json;

constexpr Spellings experts_spellings{"n_routed_experts", "num_local_experts", "num_experts",
                                      "moe_num_experts", "num_moe_experts"};

/// Layer indices of a list; each must be a layer.
std::vector<int> indices(const Reader& config, const std::string& key, int layers) {
  std::vector<int> list;
  const json* value = config.find(key);
  if (value == nullptr) return list;
  const std::string expected =
      "must be a list of layer indices from 0 to " + std::to_string(layers - 1);
  if (!value->is_array()) config.fail(key, expected);
  for (const json& item : *value) {
    if (!item.is_number_integer() || item < 0 || item >= layers) config.fail(key, expected);
    list.push_back(item.get<int>());
  }
  return list;
}

void set_top_k(Model& model, const Reader& config, const std::string& key, int64_t top_k) {
  model.moe.top_k = static_cast<int>(top_k);
  if (top_k > model.moe.experts)
    config.fail(key, "must be at most the number of experts, " + std::to_string(model.moe.experts) +
                         "; got " + std::to_string(top_k));
}

/// Keeps every product of sizes inside 64 bits.
void check_total(const Model& model, const Reader& config, const std::string& key) {
  constexpr double most = 1e16;
  const Moe& moe = model.moe;
  const double routed = 3.0 * model.layers * moe.experts * static_cast<double>(model.hidden) *
                        static_cast<double>(moe.ffn_hidden);
  if (routed > most)
    config.fail(key, "gives experts of more than 1e16 parameters in all; that is no model");
}

/// `moe_layer_freq`: n = every n-th layer from layer 0 on, or one 0 or 1 a layer (Megatron-Core).
void read_frequency(Model& model, const Reader& section, const std::string& key) {
  std::vector<bool>& layers = model.moe.layers;
  const json* value = section.find(key);
  if (value == nullptr) return;
  const auto depth = static_cast<size_t>(model.layers);
  if (!value->is_array()) {
    const int64_t every = section.required_int(key, layers_range);
    layers.assign(depth, false);
    for (size_t i = 0; i < depth; i += static_cast<size_t>(every)) layers[i] = true;
    return;
  }
  if (value->size() != depth)
    section.fail(key, "must hold one 0 or 1 for each of " + std::to_string(depth) +
                          " layers; it holds " + std::to_string(value->size()));
  layers.clear();
  for (const json& item : *value) {
    if (!item.is_number_integer() || (item != 0 && item != 1))
      section.fail(key, "must hold only 0 (dense) and 1 (experts)");
    layers.push_back(item == 1);
  }
}

/// HF: dense ahead of `first_k_dense_replace`, then every `moe_layer_freq`-th (DeepSeek); or every
/// `decoder_sparse_step`-th but not `mlp_only_layers` (Qwen; Llama 4 with a name of its own).
void read_layers(Model& model, const Reader& config, const FamilyRow& family) {
  const Range depth{0, model.layers};
  const int first = config.integer("first_k_dense_replace", family.first_dense, depth);
  const int step = static_cast<int>(
      optional_size(config, {"decoder_sparse_step", "interleave_moe_layer_step"}, layers_range)
          .value_or(1));
  const json* frequency = config.find("moe_layer_freq");
  std::vector<bool>& layers = model.moe.layers;
  if (frequency != nullptr && frequency->is_array()) {
    read_frequency(model, config, "moe_layer_freq");
  } else {
    const int every = config.integer("moe_layer_freq", 1, layers_range);
    layers.assign(static_cast<size_t>(model.layers), false);
    for (int i = first; i < model.layers; ++i)
      layers[static_cast<size_t>(i)] = i % every == 0 && (i + 1) % step == 0;
  }
  for (const int dense : indices(config, "mlp_only_layers", model.layers))
    layers[static_cast<size_t>(dense)] = false;
}

}  // namespace

void read_experts(Model& model, const Reader& config, const FamilyRow& family) {
  Moe& moe = model.moe;
  const std::string key = spelling(config, experts_spellings);
  const auto experts = config.optional_int(key, no_or_experts_range);
  if (!family.experts) {
    for (const char* name : {key.c_str(), "moe_intermediate_size"})
      if (const auto n = config.optional_int(name, {0, ffn_range.high}); n && *n > 1)
        config.fail(name, "a mixture-of-experts model, which the family '" +
                              std::string(family.model_type) + "' is not");
    return;
  }
  if (!experts && family.pattern) return;  // Nemotron-H has members without
  if (!experts) config.required_int(key, experts_range);
  if (*experts < 2) return;
  moe.experts = static_cast<int>(*experts);
  const Spellings routed{"num_experts_per_tok", "experts_per_token", "moe_topk"};
  set_top_k(model, config, spelling(config, routed), required_size(config, routed, experts_range));
  moe.ffn_hidden =
      family.ffn_is_expert
          ? optional_size(config, {"moe_intermediate_size", "intermediate_size"}, ffn_range)
                .value_or(model.ffn_hidden)
          : required_size(config, {"moe_intermediate_size"}, ffn_range);
  check_total(model, config, key);
  const auto shared = config.optional_int("n_shared_experts", no_or_experts_range);
  moe.shared_ffn_hidden =
      optional_size(config,
                    {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"},
                    {0, ffn_range.high})
          .value_or(shared.value_or(family.shared_experts) * moe.ffn_hidden);
  moe.shared_gate = family.shared_gate && moe.shared_ffn_hidden > 0;
  moe.expert_bias = family.expert_bias;
  if (config.has("topk_method")) moe.expert_bias = config.string("topk_method", "") == "noaux_tc";
  moe.sigmoid_scores = family.sigmoid_scores;
  moe.groups = config.integer("n_group", 0, no_or_experts_range);
  moe.groups_top_k = config.integer("topk_group", 0, no_or_experts_range);
  if (moe.groups > 0 && moe.experts % moe.groups != 0)
    config.fail("n_group", "must divide " + std::to_string(moe.experts) + " experts; got " +
                               std::to_string(moe.groups));
  if (moe.groups_top_k > moe.groups)
    config.fail("topk_group", "must be at most n_group, " + std::to_string(moe.groups) + "; got " +
                                  std::to_string(moe.groups_top_k));
  read_layers(model, config, family);
}

void override_experts(Model& model, const Reader& section, int layers_before) {
  Moe& moe = model.moe;
  const bool dense_before = !moe.present();
  moe.experts = section.integer("num_moe_experts", moe.experts, no_or_experts_range);
  if (moe.experts < 2) {
    moe = Moe{};
    return;
  }
  const auto depth = static_cast<size_t>(model.layers);
  if (dense_before) {
    // Megatron-Core's defaults: every layer, two experts a token, as wide as the dense MLP.
    moe.layers.assign(depth, true);
    moe.top_k = 2;
    moe.ffn_hidden = model.ffn_hidden;
  } else if (model.layers != layers_before) {
    // Another depth keeps the first layers as they are and repeats the last one.
    moe.layers.resize(depth, moe.layers.empty() || moe.layers.back());
  }
  set_top_k(model, section, section.has("moe_router_topk") ? "moe_router_topk" : "num_moe_experts",
            section.integer("moe_router_topk", moe.top_k, experts_range));
  moe.ffn_hidden = section.optional_int("moe_ffn_hidden_size", ffn_range).value_or(moe.ffn_hidden);
  moe.shared_ffn_hidden =
      section.optional_int("moe_shared_expert_intermediate_size", {0, ffn_range.high})
          .value_or(moe.shared_ffn_hidden);
  check_total(model, section,
              section.has("moe_ffn_hidden_size") ? "moe_ffn_hidden_size" : "num_moe_experts");
  moe.shared_gate = section.boolean("moe_shared_expert_gate", moe.shared_gate);
  moe.expert_bias = section.boolean("moe_router_enable_expert_bias", moe.expert_bias);
  static const std::vector<std::string> scores{"softmax", "sigmoid", "sqrtsoftplus"},
      dtypes{"fp32", "fp64"};
  if (section.has("moe_router_score_function"))
    moe.sigmoid_scores = section.choice("moe_router_score_function", "", scores) != "softmax";
  if (section.has("moe_router_dtype"))
    moe.router_fp32 = !section.choice("moe_router_dtype", "", dtypes).empty();
  moe.groups = section.integer("moe_router_num_groups", moe.groups, no_or_experts_range);
  moe.groups_top_k =
      section.integer("moe_router_group_topk", moe.groups_top_k, no_or_experts_range);
  read_frequency(model, section, "moe_layer_freq");
}

}  // namespace stepsim
