#include "sim/config/hybrid_read.h"

#include <array>
#include <nlohmann/json.hpp>

#include "sim/config/model_read.h"

namespace stepsim {
namespace {

using nlohmann::json;

constexpr Range mixer_heads_range{1, 1 << 16}, mixer_dim_range{1, 1 << 16}, taps_range{1, 64};

/// Symbols of Megatron-Core's hybrid patterns (ssm/mamba_hybrid_layer_allocation.py).
struct SymbolRow {
  char symbol;
  LayerShape shape;
};
constexpr std::array<SymbolRow, 5> symbol_rows{{
    {'M', {Mixer::mamba, FeedForward::none}},
    {'*', {Mixer::attention, FeedForward::none}},
    {'-', {Mixer::none, FeedForward::dense}},
    {'E', {Mixer::none, FeedForward::experts}},
    {'G', {Mixer::delta_net, FeedForward::none}},
}};

std::vector<LayerShape> shapes_of(const Reader& config, const std::string& key) {
  std::vector<LayerShape> shapes;
  for (const char symbol : config.string(key, "")) {
    const SymbolRow* found = nullptr;
    for (const SymbolRow& row : symbol_rows)
      if (row.symbol == symbol) found = &row;
    if (found == nullptr)
      config.fail(key, "unknown kind of layer '" + printable(std::string(1, symbol)) +
                           "'; valid: M (Mamba), * (attention), - (MLP), E (experts), G (gated "
                           "delta net)");
    shapes.push_back(found->shape);
  }
  return shapes;
}

bool holds(const std::vector<LayerShape>& shapes, Mixer mixer) {
  for (const LayerShape& shape : shapes)
    if (shape.mixer == mixer) return true;
  return false;
}

void mark_experts(Model& model) {
  if (!model.moe.present()) return;
  model.moe.layers.clear();
  for (const LayerShape& shape : model.hybrid)
    model.moe.layers.push_back(shape.feed_forward == FeedForward::experts);
}

void read_pattern(Model& model, const Reader& config) {
  const std::string key = "hybrid_override_pattern";
  config.required_string(key);
  model.hybrid = shapes_of(config, key);
  if (model.hybrid.size() != static_cast<size_t>(model.layers))
    config.fail(key, "must name each of " + std::to_string(model.layers) + " layers; it names " +
                         std::to_string(model.hybrid.size()));
  model.mtp_pattern = shapes_of(config, "mtp_hybrid_override_pattern");
  for (const std::vector<LayerShape>* shapes : {&model.hybrid, &model.mtp_pattern})
    for (const LayerShape& shape : *shapes)
      if (shape.feed_forward == FeedForward::experts && !model.moe.present())
        config.fail(key, "has layers of experts, of which n_routed_experts gives none");
  if (!holds(model.hybrid, Mixer::mamba)) return;
  Mamba& mamba = model.mamba;
  mamba.heads = config.required_int("mamba_num_heads", mixer_heads_range);
  mamba.head_dim = config.optional_int("mamba_head_dim", mixer_dim_range).value_or(64);
  mamba.groups = config.optional_int("n_groups", mixer_heads_range).value_or(8);
  mamba.state = config.optional_int("ssm_state_size", mixer_dim_range).value_or(128);
  mamba.conv = config.optional_int("conv_kernel", taps_range).value_or(4);
  if (mamba.heads % mamba.groups != 0)
    config.fail("n_groups", "must divide " + std::to_string(mamba.heads) + " Mamba heads; got " +
                                std::to_string(mamba.groups));
}

/// Qwen3-Next: every n-th layer is full attention, the others are gated delta nets.
void read_delta_layers(Model& model, const Reader& config) {
  DeltaNet& net = model.delta_net;
  net.key_heads = config.required_int("linear_num_key_heads", mixer_heads_range);
  net.value_heads = config.required_int("linear_num_value_heads", mixer_heads_range);
  net.key_dim = config.required_int("linear_key_head_dim", mixer_dim_range);
  net.value_dim = config.required_int("linear_value_head_dim", mixer_dim_range);
  net.conv = config.optional_int("linear_conv_kernel_dim", taps_range).value_or(4);
  model.attention_gate = config.boolean("attn_output_gate", true);
  const int every = config.integer("full_attention_interval", 4, layers_range);
  for (int i = 0; i < model.layers; ++i)
    model.hybrid.push_back({(i + 1) % every == 0 ? Mixer::attention : Mixer::delta_net,
                            model.moe.at(i) ? FeedForward::experts : FeedForward::dense});
  // The module behind the last layer attends to everything (Qwen3NextMultiTokenPredictor).
  if (model.mtp_layers > 0)
    model.mtp_pattern = {
        {Mixer::attention, model.moe.present() ? FeedForward::experts : FeedForward::dense}};
}

/// A value that asks for something; 0, 1, false, null and "" do not.
bool asks(const json* value) {
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return value->get<double>() > 1;
  return !value->empty();
}

}  // namespace

void read_hybrid(Model& model, const Reader& config, const FamilyRow& family) {
  const std::string other = ", which the family '" + std::string(family.model_type) + "' has not";
  if (!family.pattern) {
    for (const char* key : {"hybrid_override_pattern", "mamba_num_heads", "ssm_state_size"})
      if (asks(config.find(key))) config.fail(key, "state-space layers" + other);
    if (asks(config.find("moe_latent_size")))
      config.fail("moe_latent_size", "experts behind a latent projection" + other);
  }
  if (!family.delta_layers && asks(config.find("linear_num_key_heads")))
    config.fail("linear_num_key_heads", "linear-attention layers" + other);
  if (family.delta_layers) read_delta_layers(model, config);
  if (!family.pattern) return;
  read_pattern(model, config);
  mark_experts(model);
  if (model.moe.present())
    model.moe.latent = config.optional_int("moe_latent_size", {0, hidden_range.high}).value_or(0);
}

void resize_hybrid(Model& model) {
  if (model.hybrid.empty()) return;
  const std::vector<LayerShape> pattern = model.hybrid;
  model.hybrid.clear();
  for (size_t i = 0; i < static_cast<size_t>(model.layers); ++i)
    model.hybrid.push_back(pattern[i % pattern.size()]);
  mark_experts(model);
}

}  // namespace stepsim
