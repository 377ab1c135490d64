// The section peft (Megatron-Bridge peft/lora.py): which modules get an adapter, and what frozen
// weights leave of other settings.
#include "sim/config/adapters.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/table.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

struct TargetRow {
  std::string_view name;
  bool Adapters::*flag;
};
constexpr std::array<TargetRow, 4> target_rows{{{"linear_qkv", &Adapters::qkv},
                                                {"linear_proj", &Adapters::proj},
                                                {"linear_fc1", &Adapters::fc1},
                                                {"linear_fc2", &Adapters::fc2}}};

/// peft.scheme; a resolved run_config.yaml has the class instead
/// ("megatron.bridge.peft.lora.LoRA").
std::string scheme_of(const Reader& peft) {
  static const std::vector<std::string> schemes{"lora", "dora", "canonical_lora", "vlm_lora",
                                                "none"};
  const std::string class_key = "_target_";
  std::string fallback = "lora";
  if (const nlohmann::json* target = peft.find(class_key); target && target->is_string()) {
    std::string name = target->get<std::string>();
    name = name.substr(name.rfind('.') + 1);
    fallback = name == "DoRA"            ? "dora"
               : name == "CanonicalLoRA" ? "canonical_lora"
               : name == "VLMLoRA"       ? "vlm_lora"
                                         : "lora";
  }
  return peft.choice("scheme", fallback, schemes);
}

void read_targets(const Reader& peft, Adapters& adapters) {
  std::vector<std::string> names;
  for (const TargetRow& row : target_rows) names.emplace_back(row.name);
  const std::vector<std::string> asked =
      peft.has("target_modules") ? peft.strings("target_modules") : names;
  for (const std::string& target : asked) {
    const auto* row = std::find_if(target_rows.begin(), target_rows.end(),
                                   [&](const TargetRow& r) { return r.name == target; });
    if (row == target_rows.end())
      peft.fail("target_modules", "module '" + printable(target) +
                                      "' gets no adapter in this release" +
                                      suggestion(target, names));
    adapters.*(row->flag) = true;
  }
  if (asked.empty()) peft.fail("target_modules", "is empty: nothing would be trained");
}

/// What has no adapters here.
void check_model(const ScenarioSections& sections, Scenario& scenario) {
  const Model& m = scenario.model;
  const Adapters& a = scenario.adapters;
  const char* lacking = m.moe.present() && (a.fc1 || a.fc2) ? "adapters of experts"
                        : m.mla.present() && a.qkv          ? "adapters of latent projections"
                        : m.parallel_residual               ? "adapters beside a parallel residual"
                        : m.mtp_layers > 0 ? "adapters beside multi-token prediction"
                                           : nullptr;
  if (lacking != nullptr)
    not_simulated(sections, scenario, sections.top, "peft",
                  "asks for " + std::string(lacking) + ", which are not simulated in this release");
}

}  // namespace

void resolve_adapters(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& peft = sections.peft;
  if (!peft.present()) return;
  const std::string scheme = scheme_of(peft);
  if (scheme == "none") return;
  if (scheme != "lora")
    return not_simulated(sections, scenario, peft, "scheme",
                         "'" + scheme + "' is not simulated in this release; valid: lora, none");
  Adapters adapters;
  // Bridge's defaults are those of the class, not of a recipe.
  adapters.rank = peft.integer("dim", 32, {1, 1 << 16});
  adapters.dropout = peft.number("dropout", 0, 0, 1);
  if (peft.boolean("a2a_experimental", false))
    return not_simulated(sections, scenario, peft, "a2a_experimental",
                         "all-to-all behind adapters is not simulated in this release");
  if (peft.has("exclude_modules") && !peft.strings("exclude_modules").empty())
    return not_simulated(sections, scenario, peft, "exclude_modules",
                         "is not simulated in this release; name target_modules");
  read_targets(peft, adapters);
  const int tp = scenario.parallel.tp;
  if (adapters.rank % tp != 0)
    refuse(sections, scenario, peft, "dim", "adapter-rank-not-divisible",
           "must be a multiple of tensor_model_parallel_size " + text(tp) +
               ": the adapters' inner dimension is split; got " + text(adapters.rank));
  scenario.adapters = adapters;
  check_model(sections, scenario);
  scenario.effective["peft.dim"] = json_text(int64_t{adapters.rank});
}

}  // namespace stepsim
