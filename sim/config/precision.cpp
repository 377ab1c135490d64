// Megatron-Bridge's mixed-precision recipes (src/megatron/bridge/training/mixed_precision.py): a
// name stands for a set of fields, and setup() writes them over the same fields of model, optimizer
// and ddp.
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/table.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

struct RecipeRow {
  std::string_view name;
  Dtype dtype;
  Fp8Recipe fp8;
  bool fp8_param_gather;
  int first, last;  ///< layers at the ends that stay out of fp8; -1: none unless asked for
  bool grad_reduce_in_fp32;
};
constexpr std::array<RecipeRow, 14> recipe_rows{{
    {"bf16_mixed", Dtype::bf16, Fp8Recipe::none, false, -1, -1, true},
    {"fp16_mixed", Dtype::fp16, Fp8Recipe::none, false, -1, -1, false},
    {"bf16_with_fp8_delayed_scaling_mixed", Dtype::bf16, Fp8Recipe::delayed, true, -1, -1, true},
    {"fp16_with_fp8_delayed_scaling_mixed", Dtype::fp16, Fp8Recipe::delayed, true, -1, -1, false},
    {"bf16_with_fp8_current_scaling_mixed", Dtype::bf16, Fp8Recipe::current, true, 1, 1, true},
    {"fp16_with_fp8_current_scaling_mixed", Dtype::fp16, Fp8Recipe::current, true, 1, 1, false},
    {"bf16_with_mxfp8_mixed", Dtype::bf16, Fp8Recipe::mxfp8, true, -1, -1, true},
    {"fp16_with_mxfp8_mixed", Dtype::fp16, Fp8Recipe::mxfp8, true, -1, -1, false},
    {"bf16_with_fp8_subchannel_scaling_mixed", Dtype::bf16, Fp8Recipe::blockwise, false, -1, -1,
     true},
    {"fp16_with_fp8_subchannel_scaling_mixed", Dtype::fp16, Fp8Recipe::blockwise, false, -1, -1,
     false},
    {"bf16_with_nvfp4_mixed", Dtype::bf16, Fp8Recipe::nvfp4, true, -1, -1, true},
    {"nemotron_h_bf16_with_fp8_current_scaling_mixed", Dtype::bf16, Fp8Recipe::current, true, 2, 2,
     true},
    {"nanov2_bf16_with_fp8_current_scaling_mixed", Dtype::bf16, Fp8Recipe::blockwise, true, 2, 2,
     true},
    {"nemotron_3_super_bf16_with_nvfp4_mixed", Dtype::bf16, Fp8Recipe::nvfp4, true, 0, 14, true},
}};

const RecipeRow& recipe_named(const ScenarioSections& sections, const std::string& given) {
  const Reader& section = sections.recipe_is_text ? sections.top : sections.mixed_precision;
  const std::string key = sections.recipe_is_text ? "mixed_precision" : "recipe";
  // Bridge registers every name with hyphens too.
  std::string name = given;
  for (char& c : name)
    if (c == '-') c = '_';
  std::vector<std::string> names;
  for (const RecipeRow& row : recipe_rows) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  section.fail(key, "unknown recipe '" + printable(name) + "'" + suggestion(name, names));
}

/// fp8_recipe, as transformer_config.py names them.
struct Fp8Row {
  std::string_view name;
  Fp8Recipe recipe;
};
constexpr std::array<Fp8Row, 4> fp8_rows{{{"delayed", Fp8Recipe::delayed},
                                          {"tensorwise", Fp8Recipe::current},
                                          {"blockwise", Fp8Recipe::blockwise},
                                          {"mxfp8", Fp8Recipe::mxfp8}}};

void fp8_fields(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& mixed = sections.mixed_precision;
  Precision& precision = scenario.precision;
  if (const nlohmann::json* fp8 = mixed.find("fp8"); fp8 != nullptr) {
    static const std::vector<std::string> formats{"hybrid", "e4m3"};
    mixed.choice("fp8", "", formats);
    if (precision.fp8 == Fp8Recipe::none)
      precision.fp8 = Fp8Recipe::delayed;  // MCore's default recipe
  }
  if (!mixed.has("fp8_recipe")) return;
  const std::string recipe = mixed.string("fp8_recipe", "");
  static const std::vector<std::string> recipes{"delayed", "tensorwise", "blockwise", "mxfp8",
                                                "custom"};
  mixed.choice("fp8_recipe", "", recipes);
  if (recipe == "custom")
    not_simulated(sections, scenario, mixed, "fp8_recipe",
                  "'custom' names quantizers of its own and is not simulated");
  // The recipe alone switches nothing on: fp8 does (transformer_config.py).
  if (precision.fp8 == Fp8Recipe::none) return;
  for (const Fp8Row& row : fp8_rows)
    if (row.name == recipe) precision.fp8 = row.recipe;
}

/// fp4 switches NVFP4 on, whatever the recipe's name says.
void fp4_fields(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& mixed = sections.mixed_precision;
  Precision& precision = scenario.precision;
  static const std::vector<std::string> formats{"e2m1"}, recipes{"nvfp4", "custom"};
  const bool on = !mixed.choice("fp4", "", formats).empty();
  if (on && precision.fp8 != Fp8Recipe::none && precision.fp8 != Fp8Recipe::nvfp4)
    refuse(sections, scenario, mixed, "fp4", "fp4-excludes-fp8", "cannot be combined with fp8");
  if (mixed.choice("fp4_recipe", "", recipes) == "custom")
    not_simulated(sections, scenario, mixed, "fp4_recipe",
                  "'custom' names quantizers of its own and is not simulated");
  if (on) precision.fp8 = Fp8Recipe::nvfp4;
}

}  // namespace

Dtype gemm_dtype(const Precision& precision) {
  switch (precision.fp8) {
    case Fp8Recipe::none:
      return precision.parameters;
    case Fp8Recipe::delayed:
    case Fp8Recipe::current:
      return Dtype::fp8;
    case Fp8Recipe::blockwise:
      return Dtype::fp8_block;
    case Fp8Recipe::mxfp8:
      return Dtype::mxfp8;
    case Fp8Recipe::nvfp4:
      return Dtype::nvfp4;
  }
  return precision.parameters;
}

void resolve_precision(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& mixed = sections.mixed_precision;
  Precision& precision = scenario.precision;
  precision.recipe = mixed.string("recipe", "bf16_mixed");
  const RecipeRow& row = recipe_named(sections, precision.recipe);
  precision.recipe = row.name;
  precision.parameters = row.dtype;
  precision.fp8 = row.fp8;
  fp8_fields(sections, scenario);
  fp4_fields(sections, scenario);
  // Bridge reads both spellings, the older one last.
  precision.fp8_param_gather =
      precision.fp8 != Fp8Recipe::none &&
      mixed.boolean("fp8_param_gather", mixed.boolean("fp8_param", row.fp8_param_gather));
  precision.fp8_attention =
      mixed.boolean("fp8_dot_product_attention", false) && precision.fp8 != Fp8Recipe::none;
  const bool ends = mixed.boolean("first_last_layers_bf16", row.first >= 0);
  if (ends && precision.fp8 == Fp8Recipe::delayed)
    refuse(sections, scenario, mixed, "first_last_layers_bf16", "bf16-ends-exclude-delayed-scaling",
           "cannot be combined with delayed scaling (Megatron-Core refuses it)");
  // Bridge's MixedPrecisionConfig holds 0 and writes it over Megatron-Core's 1.
  const int otherwise = sections.dialect == Dialect::megatron_lm ? 1 : 0;
  const int first = mixed.integer("num_layers_at_start_in_bf16",
                                  row.first >= 0 ? row.first : otherwise, any_count),
            last = mixed.integer("num_layers_at_end_in_bf16", row.last >= 0 ? row.last : otherwise,
                                 any_count);
  if (ends && precision.fp8 != Fp8Recipe::none) {
    precision.bf16_first_layers = first;
    precision.bf16_last_layers = last;
  }
  const Reader& ddp = sections.ddp;
  const std::optional<bool> asked = ddp.optional_bool("grad_reduce_in_fp32");
  if (mixed.present()) {
    precision.grad_reduce_in_fp32 = mixed.boolean("grad_reduce_in_fp32", row.grad_reduce_in_fp32);
    if (asked && *asked != precision.grad_reduce_in_fp32)
      add_finding(scenario, ddp, "grad_reduce_in_fp32", "mixed-precision-overwrites-ddp",
                  Finding::Kind::silent, json_text(*asked),
                  json_text(precision.grad_reduce_in_fp32),
                  "mixed_precision.setup writes its own grad_reduce_in_fp32 over ddp's; set "
                  "mixed_precision.grad_reduce_in_fp32");
  } else {
    precision.grad_reduce_in_fp32 = asked.value_or(row.grad_reduce_in_fp32);
  }
  const std::optional<bool> gather = ddp.optional_bool("fp8_param_gather");
  if (mixed.present() && gather && *gather != precision.fp8_param_gather)
    add_finding(scenario, ddp, "fp8_param_gather", "mixed-precision-overwrites-ddp",
                Finding::Kind::silent, json_text(*gather), json_text(precision.fp8_param_gather),
                "mixed_precision.setup writes its own fp8_param_gather over ddp's; set "
                "mixed_precision.fp8_param_gather");
  scenario.effective["mixed_precision"] = json_text(precision.recipe);
  scenario.effective["ddp.grad_reduce_in_fp32"] = json_text(precision.grad_reduce_in_fp32);
  const bool four_bit = precision.fp8 == Fp8Recipe::nvfp4;
  scenario.effective["ddp.fp8_param_gather"] = json_text(precision.fp8_param_gather && !four_bit);
  scenario.effective["ddp.fp4_param_gather"] = json_text(precision.fp8_param_gather && four_bit);
}

}  // namespace stepsim
