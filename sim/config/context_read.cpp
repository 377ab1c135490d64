// How context-parallel ranks exchange keys and values (Megatron-Core transformer_config.py;
// Transformer Engine pytorch/attention/dot_product_attention/context_parallel.py).
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/config/resolve.h"

namespace stepsim {
namespace {

/// `heads`: ranks of the all-to-all share out a TP rank's heads; `windows`: sliding ones work.
struct ContextRow {
  std::string_view name;
  ContextKind kind;
  bool heads, windows;
};
constexpr std::array<ContextRow, 4> context_rows{{
    {"p2p", ContextKind::p2p, false, false},
    {"all_gather", ContextKind::all_gather, false, true},
    {"a2a", ContextKind::a2a, true, true},
    {"a2a+p2p", ContextKind::a2a_p2p, true, false},
}};

constexpr char hierarchy[] = "hierarchical_context_parallel_sizes", kind_key[] = "cp_comm_type";

/// Sets cp_inner; false when the key is absent.
bool read_hierarchy(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const nlohmann::json* sizes = model.find(hierarchy);
  if (sizes == nullptr) return false;
  constexpr Range any{1, 1 << 20};
  int64_t product = 1;
  if (!sizes->is_array()) model.fail(hierarchy, "must be a list");
  for (const nlohmann::json& n : *sizes) {
    if (!n.is_number_integer() || n < any.low || n > any.high)
      model.fail(hierarchy, "must hold sizes from 1");
    product = std::min<int64_t>(product * n.get<int64_t>(), int64_t{1} << 40);
  }
  const int cp = scenario.parallel.cp;
  if (sections.dist.boolean("use_decentralized_pg", false))
    refuse(sections, scenario, model, hierarchy, "hierarchical-cp-excludes-decentralized-groups",
           "must be null with dist.use_decentralized_pg: those groups have no levels");
  if (product != cp)
    refuse(sections, scenario, model, hierarchy, "hierarchical-cp-product",
           "must multiply to context_parallel_size " + text(cp) + "; got " + text(product));
  else if (sizes->size() == 2)
    scenario.parallel.cp_inner = sizes->front().get<int>();
  return true;
}

void check_heads(const ScenarioSections& sections, Scenario& scenario, const ContextRow& row) {
  const Parallelism& p = scenario.parallel;
  const Model& m = scenario.model;
  const int ranks = row.kind == ContextKind::a2a ? p.cp : p.cp_inner;
  const int heads = m.heads / p.tp, groups = std::max(1, m.query_groups / p.tp);
  if (heads % ranks == 0 && groups % ranks == 0) return;
  refuse(sections, scenario, sections.model, kind_key, "a2a-does-not-divide-heads",
         "'" + std::string(row.name) + "' shares a TP rank's heads out over " + text(ranks) +
             " ranks, which must divide both; there are " + text(heads) + " query and " +
             text(groups) + " key heads");
}

void check_kind(const ScenarioSections& sections, Scenario& scenario, const ContextRow& row,
                int layer, bool hierarchical) {
  const Reader& model = sections.model;
  const nlohmann::json* sizes = model.find(hierarchy);
  if (row.kind == ContextKind::a2a_p2p && !hierarchical)
    refuse(sections, scenario, model, kind_key, "a2a-p2p-needs-hierarchy",
           "'a2a+p2p' needs hierarchical_context_parallel_sizes");
  if (scenario.parallel.cp < 2) return;
  if (row.kind == ContextKind::a2a_p2p && hierarchical && sizes->size() != 2)
    refuse(sections, scenario, model, hierarchy, "a2a-p2p-has-two-levels",
           "must hold two sizes, of the all-to-all and of the ring; got " +
               text(static_cast<int64_t>(sizes->size())));
  if (row.heads) check_heads(sections, scenario, row);
  const std::vector<bool>& windows = scenario.model.window.layers;
  const bool window = scenario.model.window.tokens > 0 &&
                      (layer < 0 ? std::find(windows.begin(), windows.end(), true) != windows.end()
                                 : windows[static_cast<size_t>(layer)]);
  if (window && !row.windows)
    refuse(sections, scenario, model, kind_key, "window-needs-a2a-or-all-gather",
           "a sliding window under context parallelism needs all_gather or a2a; got '" +
               std::string(row.name) + "' (Transformer Engine raises)");
}

}  // namespace

void resolve_context(const ScenarioSections& sections, Scenario& scenario) {
  const Reader& model = sections.model;
  const bool hierarchical = read_hierarchy(sections, scenario);
  const bool given = model.has(kind_key);
  const std::vector<std::string> names =
      given ? model.strings(kind_key) : std::vector<std::string>{"p2p"};
  const nlohmann::json* list = model.find(kind_key);
  const bool by_layer = given && list->is_array();
  if (by_layer && scenario.model.layers > 0 &&
      static_cast<int>(names.size()) != scenario.model.layers) {
    refuse(sections, scenario, model, kind_key, "cp-kinds-not-per-layer",
           "a list must name one kind for each of " + text(scenario.model.layers) +
               " layers; it names " + text(static_cast<int64_t>(names.size())));
    return;
  }
  std::vector<ContextKind> kinds;
  for (const std::string& name : names) {
    const auto* row = std::find_if(context_rows.begin(), context_rows.end(),
                                   [&](const ContextRow& r) { return r.name == name; });
    if (row == context_rows.end())
      model.fail(kind_key,
                 "unknown kind '" + printable(name) + "'; valid: p2p, all_gather, a2a, a2a+p2p");
    // A kind is checked once; of a list each layer may have a window of its own.
    const bool seen = std::find(kinds.begin(), kinds.end(), row->kind) != kinds.end();
    const int layer = by_layer ? static_cast<int>(kinds.size()) : -1;
    if (!seen || scenario.model.window.tokens > 0)
      check_kind(sections, scenario, *row, layer, hierarchical);
    kinds.push_back(row->kind);
  }
  scenario.parallel.context = std::move(kinds);
}

}  // namespace stepsim
