#include "sim/config/import_bridge.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace stepsim {
namespace {

using nlohmann::json;

const json* member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

bool is(const json* value, bool wanted) {
  return value != nullptr && value->is_boolean() && value->get<bool>() == wanted;
}

bool is_absent(const json& object, const char* key) {
  const json* value = member(object, key);
  return value == nullptr || value->is_null();
}

/// The plain value that a mapping with `_target_` stands for, or null: a section of its own.
json plain_value(const json& object) {
  const json* target = member(object, "_target_");
  if (target == nullptr || !target->is_string()) return nullptr;
  const json *name = member(object, "_name_"), *args = member(object, "_args_");
  if (name != nullptr && name->is_string() && args != nullptr && args->is_array() &&
      args->size() == 1 && args->front().is_primitive())
    return args->front().is_string() ? args->front() : *name;
  if (is(member(object, "_call_"), false) || is(member(object, "_partial_"), true)) return *target;
  return nullptr;
}

/// "torch.nn.functional.silu" -> "silu": the reader knows activations by their own name.
void name_activation(json& model) {
  const auto found = model.find("activation_func");
  if (found == model.end() || !found->is_string()) return;
  const std::string dotted = found->get<std::string>();
  *found = dotted.substr(dotted.rfind('.') + 1);  // npos + 1 = 0
}

void lift_transformer(json& model) {
  const auto nested = model.find("transformer");
  if (nested == model.end() || !nested->is_object()) return;
  const json fields = std::move(*nested);
  model.erase(nested);
  for (const auto& [key, value] : fields.items())
    if (!key.starts_with("_") && is_absent(model, key.c_str())) model[key] = value;
}

/// A resolved MixedPrecisionConfig names no recipe, and its dataclass fills in fp8 and fp4 recipes
/// whether or not the format is on (src/megatron/bridge/training/mixed_precision.py).
void settle_precision(json& precision) {
  if (precision.contains("recipe")) return;
  if (is_absent(precision, "fp8")) precision.erase("fp8_recipe");
  if (is_absent(precision, "fp4")) precision.erase("fp4_recipe");
  if (is(member(precision, "fp16"), true) && !is(member(precision, "bf16"), true))
    precision["recipe"] = "fp16_mixed";
}

}  // namespace

void plain_bridge_values(json& root) {
  if (!root.is_structured()) return;
  for (json& value : root) {
    plain_bridge_values(value);
    if (!value.is_object()) continue;
    if (json plain = plain_value(value); !plain.is_null()) value = std::move(plain);
  }
}

void settle_run_config(json& root) {
  const auto model = root.find("model");
  const bool has_model = model != root.end() && model->is_object();
  if (has_model) {
    lift_transformer(*model);
    name_activation(*model);
  }
  const json* target = member(root, "_target_");
  if (target == nullptr || !target->is_string() ||
      !target->get<std::string>().ends_with("ConfigContainer"))
    return;
  if (const auto precision = root.find("mixed_precision");
      precision != root.end() && precision->is_object())
    settle_precision(*precision);
  // Megatron-Core fills this in for dense models too (transformer_config.py); it means nothing
  // there.
  if (has_model && is_absent(*model, "num_moe_experts"))
    model->erase("expert_tensor_parallel_size");
  const auto overlap = root.find("comm_overlap");
  if (overlap == root.end()) return;
  json requested = std::move(*overlap);
  root.erase(overlap);
  if (has_model && requested.is_object() && !is_absent(requested, "tp_comm_overlap_cfg")) {
    json& section = root["model"];
    if (is_absent(section, "tp_comm_overlap_cfg"))
      section["tp_comm_overlap_cfg"] = requested["tp_comm_overlap_cfg"];
    requested.erase("tp_comm_overlap_cfg");
  }
  if (!requested.is_null()) root["_comm_overlap_requested"] = std::move(requested);
}

}  // namespace stepsim
