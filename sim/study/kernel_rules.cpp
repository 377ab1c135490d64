#include "sim/study/kernel_rules.h"

#include <algorithm>
#include <array>

#include "sim/config/cluster_read.h"

namespace stepsim {
namespace {

/// Recipes by the names that rules use.
struct RecipeName {
  const char* name;
  Fp8Recipe recipe;
};
constexpr std::array<RecipeName, 6> recipe_names{{{"none", Fp8Recipe::none},
                                                  {"delayed", Fp8Recipe::delayed},
                                                  {"current", Fp8Recipe::current},
                                                  {"blockwise", Fp8Recipe::blockwise},
                                                  {"mxfp8", Fp8Recipe::mxfp8},
                                                  {"nvfp4", Fp8Recipe::nvfp4}}};

Fp8Recipe recipe_in(const Reader& from) {
  std::vector<std::string> names;
  for (const RecipeName& known : recipe_names) names.emplace_back(known.name);
  const std::string name = from.choice("quantize", "none", names);
  for (const RecipeName& known : recipe_names)
    if (name == known.name) return known.recipe;
  return Fp8Recipe::none;
}

/// A system's stack by release.
StackProfile stack_in(const Reader& from, const DataPaths& data) {
  const std::string system = from.string("system", ""), release = from.string("release", "");
  StackProfile stack;
  stack.burst = from.boolean("burst", false);
  if (system.empty()) return stack;
  stack = read_cluster(system, 1, release, data).stack;
  stack.memory_factor = 1;  // of training, where kernels are not the clean ones that are timed here
  stack.fused_attention = true;
  return stack;
}

std::vector<KernelRule> read_list(const Reader& top, const std::string& key,
                                  const DataPaths& data) {
  static const std::vector<std::string> columns{"gpu",   "op",     "dtype", "pass",
                                                "notes", "source", "causal"};
  static const std::vector<std::string> row_meanings{"", "total m", "total k", "k is m"};
  constexpr double most_bytes = 1e4, most_products = 100;
  std::vector<KernelRule> rules;
  for (const Reader& from : top.children(key)) {
    KernelRule& rule = rules.emplace_back();
    const Reader where = from.child("where");
    for (const std::string& column : columns)
      if (where.has(column)) rule.where[column] = where.required_string(column);
    where.refuse_unused(columns);
    rule.use = from.string("use", "");
    rule.reason = from.string("reason", "");
    rule.stack = stack_in(from, data);
    rule.adds = {from.quantity("adds", Dimension::time, 0)};
    rule.floor = {from.quantity("floor", Dimension::time, 0)};
    rule.each = {from.quantity("each", Dimension::time, 0)};
    rule.short_call = {from.quantity("short_call", Dimension::time, 0)};
    rule.rows = from.choice("rows", "", row_meanings);
    rule.products = from.number("products", 1, 1, most_products);
    rule.concurrent = from.integer("concurrent", 0, any_count);
    rule.result_bytes = from.number("result_bytes", 0, 0, most_bytes);
    rule.input_bytes = from.number("input_bytes", 0, 0, most_bytes);
    rule.operand_bytes = from.number("operand_bytes", 0, 0, most_bytes);
    rule.quantize = recipe_in(from);
    rule.element_bytes = from.number("element", 0, 0, most_bytes);
    rule.table_bytes = from.number("table", 0, 0, most_bytes);
    rule.copy_bytes = from.number("copy", 0, 0, most_bytes);
    for (const char* note : {"source", "notes"}) from.use(note);
    from.refuse_unused();
  }
  return rules;
}

}  // namespace

KernelRules::KernelRules(const DataPaths& data) {
  const Document document = load_document(data.root / "hardware/measurements/kernels.json");
  const Reader top(document, "");
  devices = read_list(top, "devices", data);
  stacks = read_list(top, "stacks", data);
  types = read_list(top, "types", data);
  left_out = read_list(top, "left_out", data);
  libraries = read_list(top, "libraries", data);
  timing = read_list(top, "timing", data);
  shapes = read_list(top, "shapes", data);
  streams = read_list(top, "streams", data);
  for (const char* key : {"description", "source", "notes"}) top.use(key);
  top.refuse_unused();
}

const KernelRule* KernelRules::find(const std::vector<KernelRule>& rules, const CsvRow& row) {
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const KernelRule& rule) {
    return std::all_of(rule.where.begin(), rule.where.end(), [&](const auto& word) {
      const std::string& text = row.at(word.first);
      const bool whole = word.first == "pass" || word.first == "op";
      return whole && word.second.back() != '*' ? text == word.second
             : whole ? text.starts_with(word.second.substr(0, word.second.size() - 1))
                     : text.find(word.second) != std::string::npos;
    });
  });
  return found == rules.end() ? nullptr : &*found;
}

StackProfile KernelRules::stack_of(const CsvRow& row) const {
  const KernelRule* rule = find(stacks, row);
  return rule == nullptr ? StackProfile{} : rule->stack;
}

}  // namespace stepsim
