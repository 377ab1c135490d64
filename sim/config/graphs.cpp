// CUDA graphs: who captures them and what they hold (Megatron-Core transformer_config.py,
// cuda_graph_impl and cuda_graph_scope; enums.py, CudaGraphScope).
#include "sim/config/graphs.h"

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

Graphs::Graphs(const Reader& model) {
  static const Names impls{"none", "local", "transformer_engine", "full_iteration"};
  impl = model.choice("cuda_graph_impl", "none", impls);
  asked = scope = read_scope(model);
  if (impl != "local" || iteration()) return;
  const bool router = captures("moe_router"), preprocess = captures("moe_preprocess");
  if (preprocess && !router) scope.emplace_back("moe_router");
  if (router && !preprocess) scope.emplace_back("moe_preprocess");
}

bool Graphs::captures(std::string_view name) const { return holds(scope, name); }

void resolve_graphs(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const Graphs graphs(model);
  Names scope = graphs.scope;
  const auto changed = [&](const std::string& id, const std::string& why) {
    add_finding(scenario, model, "cuda_graph_scope", id, Finding::Kind::silent,
                list_text(graphs.asked), list_text(scope), why);
  };
  if (graphs.off() && !scope.empty()) {
    scope.clear();
    changed("graph-scope-without-effect",
            "has no effect: cuda_graph_impl is none, nothing is captured");
  }
  if (graphs.impl == "transformer_engine" && std::erase(scope, "full_iteration") > 0)
    changed(
        "graph-scope-without-effect",
        "full_iteration has no effect with cuda_graph_impl transformer_engine; local captures it");
  if (scope.size() > graphs.asked.size())
    changed("graph-scope-completed",
            "local graphs capture moe_router and moe_preprocess together, or neither");
  scenario.full_iteration_graph = graphs.iteration();
  if (!graphs.off() && !scenario.full_iteration_graph) {
    const bool layers = graphs.whole_layers();
    scenario.graph_attention = layers || holds(scope, "attn");
    scenario.graph_mlp = layers || holds(scope, "mlp");
    scenario.graph_mixer = layers || holds(scope, "mamba");
    scenario.graph_moe = layers || holds(scope, "moe");
    scenario.graph_router = scenario.graph_moe || holds(scope, "moe_router");
    scenario.graph_preprocess =
        scenario.graph_moe || (scenario.graph_router && holds(scope, "moe_preprocess"));
  }
  scenario.effective["model.cuda_graph_impl"] = json_text(graphs.impl);
  scenario.effective["model.cuda_graph_scope"] =
      model.has("cuda_graph_scope") ? list_text(scope) : "null";
}

}  // namespace stepsim
