#include "sim/study/effective.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace stepsim {
namespace {

std::string number(int64_t value) { return fmt::format("{}", value); }
std::string word(std::string_view text) { return fmt::format("\"{}\"", text); }

/// A size that follows from several keys, under the name that Megatron or the hardware file gives.
struct FieldRow {
  std::string_view name;
  std::string (*value)(const Scenario&);
};
constexpr std::array<FieldRow, 17> field_rows{{
    {"data_parallel_size", [](const Scenario& s) { return number(s.parallel.dp); }},
    {"expert_data_parallel_size",
     [](const Scenario& s) { return s.parallel.experts ? number(s.parallel.edp()) : ""; }},
    {"num_microbatches", [](const Scenario& s) { return number(s.batch.microbatches); }},
    {"pipeline.schedule", [](const Scenario& s) { return word(name(s.schedule)); }},
    {"model.name", [](const Scenario& s) { return word(s.model.name); }},
    {"model.num_layers", [](const Scenario& s) { return number(s.model.layers); }},
    {"model.hidden_size", [](const Scenario& s) { return number(s.model.hidden); }},
    {"model.ffn_hidden_size", [](const Scenario& s) { return number(s.model.ffn_hidden); }},
    {"model.num_moe_experts",
     [](const Scenario& s) { return s.model.moe.present() ? number(s.model.moe.experts) : ""; }},
    {"model.recompute_num_layers",
     [](const Scenario& s) {
       return s.recompute == Recompute::modules ? "" : number(s.recompute_layers);
     }},
    {"cluster.system", [](const Scenario& s) { return word(s.cluster.system); }},
    {"cluster.nodes", [](const Scenario& s) { return number(s.cluster.nodes); }},
    {"cluster.gpus", [](const Scenario& s) { return number(s.cluster.gpus); }},
    {"cluster.gpu", [](const Scenario& s) { return word(s.cluster.device.name); }},
    {"cluster.nvlink_domain", [](const Scenario& s) { return number(s.cluster.nvlink_domain); }},
    {"cluster.faults", [](const Scenario& s) { return number(s.faults.count); }},
    {"cluster.software_stack", [](const Scenario& s) { return word(s.cluster.stack.name); }},
}};

}  // namespace

std::map<std::string, std::string> effective_fields(const Scenario& scenario) {
  std::map<std::string, std::string> fields = scenario.effective;
  for (const FieldRow& row : field_rows) {
    std::string value = row.value(scenario);
    if (!value.empty()) fields.try_emplace(std::string(row.name), std::move(value));
  }
  return fields;
}

std::vector<EffectiveChange> effective_changes(const Scenario& a, const Scenario& b) {
  const std::map<std::string, std::string> left = effective_fields(a), right = effective_fields(b);
  std::map<std::string, EffectiveChange> found;
  for (const auto& [key, value] : left) found[key] = {key, value, ""};
  for (const auto& [key, value] : right) {
    EffectiveChange& change = found[key];
    change.key = key;
    change.to = value;
  }
  std::vector<EffectiveChange> changes;
  for (auto& [key, change] : found)
    if (change.from != change.to) changes.push_back(std::move(change));
  return changes;
}

}  // namespace stepsim
