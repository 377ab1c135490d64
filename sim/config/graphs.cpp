// CUDA graphs: who captures them and what they hold (Megatron-Core transformer_config.py,
// cuda_graph_impl and cuda_graph_scope; enums.py, CudaGraphScope).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/table.h"
#include "sim/config/resolve.h"

namespace stepsim {
namespace {

using Names = std::vector<std::string>;

bool holds(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string list_text(const Names& names) { return nlohmann::json(names).dump(); }

Names read_scope(const Reader& model) {
  // "full" is the older word for whole layers.
  static const Names valid{"attn",           "mlp",   "moe",  "moe_router",
                           "moe_preprocess", "mamba", "full", "full_iteration"};
  const Names scope = model.strings("cuda_graph_scope");
  for (const std::string& name : scope)
    if (!holds(valid, name))
      model.fail("cuda_graph_scope",
                 "unknown name '" + printable(name) + "'" + suggestion(name, valid));
  return scope;
}

}  // namespace

void resolve_graphs(const ScenarioSections& sections, Scenario& scenario) {
  static const Names impls{"none", "local", "transformer_engine", "full_iteration"};
  const Reader& model = sections.model;
  const std::string impl = model.choice("cuda_graph_impl", "none", impls);
  const Names asked = read_scope(model);
  Names scope = asked;
  const auto dropped = [&](const std::string& why) {
    add_finding(scenario, model, "cuda_graph_scope", "graph-scope-without-effect",
                Finding::Kind::silent, list_text(asked), list_text(scope), why);
  };
  if (impl == "none" && !asked.empty()) {
    scope.clear();
    dropped("has no effect: cuda_graph_impl is none, nothing is captured");
  }
  if (impl == "transformer_engine" && std::erase(scope, "full_iteration") > 0)
    dropped(
        "full_iteration has no effect with cuda_graph_impl transformer_engine; local captures it");
  scenario.full_iteration_graph =
      impl == "full_iteration" || (impl == "local" && holds(scope, "full_iteration"));
  if (impl != "none" && !scenario.full_iteration_graph) {
    const bool layers = asked.empty() || holds(scope, "full");
    scenario.graph_attention = layers || holds(scope, "attn");
    scenario.graph_mlp = layers || holds(scope, "mlp");
    scenario.graph_mixer = layers || holds(scope, "mamba");
    scenario.graph_moe = layers || holds(scope, "moe");
    scenario.graph_router = scenario.graph_moe || holds(scope, "moe_router");
    scenario.graph_preprocess =
        scenario.graph_moe || (scenario.graph_router && holds(scope, "moe_preprocess"));
  }
  scenario.effective["model.cuda_graph_impl"] = json_text(impl);
  scenario.effective["model.cuda_graph_scope"] =
      model.has("cuda_graph_scope") ? list_text(scope) : "null";
}

}  // namespace stepsim
