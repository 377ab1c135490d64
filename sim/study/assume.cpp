#include "sim/study/assume.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace stepsim {
namespace {

using nlohmann::json;

/// A finding and the value of one key that avoids it. `written`: also where the row says otherwise,
/// because the release that ran did not check yet.
struct RepairRow {
  std::string_view finding, section, key;
  std::string_view value;  ///< as JSON text
  bool written;
};
constexpr std::array<RepairRow, 4> repair_rows{{
    {"moe-needs-sequence-parallel", "model", "sequence_parallel", "true", false},
    {"mxfp8-excludes-gather-in-optimizer", "comm_overlap",
     "overlap_param_gather_with_optimizer_step", "false", true},
    {"ep-overlap-excludes-shared-overlap", "model", "moe_shared_expert_overlap", "false", true},
    {"offload-needs-first-interface", "env_vars", "NVTE_CPU_OFFLOAD_V1", "1", false},
}};

void split(json& scenario, const Scenario& resolved, std::vector<std::string>& assumed) {
  json& model = scenario["model"];
  const Parallelism& p = resolved.parallel;
  const int layers = resolved.model.layers, stages = p.pp * p.chunks();
  static const std::array<std::string, 2> flags{"account_for_embedding_in_pipeline_split",
                                                "account_for_loss_in_pipeline_split"};
  if ((layers + 2) % stages == 0) {
    for (const std::string& flag : flags) {
      model[flag] = true;
      assumed.push_back("model." + flag);
    }
    return;
  }
  const std::string layout = even_layout(layers, resolved.model.mtp_layers, stages);
  if (layout.empty()) return;
  for (const std::string& flag : flags) model.erase(flag);
  for (const char* key :
       {"num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"})
    model.erase(key);
  model["pipeline_model_parallel_layout"] = layout;
  assumed.push_back("model.pipeline_model_parallel_layout");
}

/// Rows name a scheme alone. The recipes that NVIDIA measures by put adapters beside qkv only
/// (Megatron-Bridge src/megatron/bridge/perf_recipes/llama, NeMo nemo/collections/llm/recipes,
/// performance_mode), and none of them shards parameters: rows that do are of AutoModel, which
/// adapts all linears as the class does.
void target(json& scenario, const Scenario& resolved, std::vector<std::string>& assumed) {
  if (!resolved.adapters.present() || resolved.data_parallel.fully_sharded != FullySharded::none)
    return;
  json& peft = scenario["peft"];
  for (const char* key : {"target_modules", "_target_"})
    if (peft.contains(key)) return;
  peft["target_modules"] = json::array({"linear_qkv"});
  assumed.push_back("peft.target_modules");
}

}  // namespace

std::string even_layout(int layers, int prediction_modules, int stages) {
  const int items = layers + prediction_modules + 2;
  if (items < stages) return {};
  // The last stage and then the first ones are those with one more.
  const int share = items / stages;
  int more = items % stages;
  std::vector<int> counts(static_cast<size_t>(stages), share);
  if (more > 0) {
    ++counts.back();
    --more;
  }
  for (int i = 0; i < more; ++i) ++counts[static_cast<size_t>(i)];
  if (counts.back() < prediction_modules + 1) return {};
  std::string text = "E";
  for (size_t i = 0; i < counts.size(); ++i) {
    const bool last = i + 1 == counts.size();
    const int here = counts[i] - (i == 0 ? 1 : 0) - (last ? prediction_modules + 1 : 0);
    text += std::string(static_cast<size_t>(std::max(0, here)), 't');
    if (!last) text += '|';
  }
  return text + std::string(static_cast<size_t>(prediction_modules), 'm') + "L";
}

std::vector<std::string> assume(json& scenario, const Scenario& resolved) {
  std::vector<std::string> assumed;
  for (const Finding& finding : resolved.findings) {
    if (finding.kind != Finding::Kind::error) continue;
    if (finding.id == "layers-not-divisible" && assumed.empty()) split(scenario, resolved, assumed);
    for (const RepairRow& row : repair_rows) {
      if (finding.id != row.finding) continue;
      if (row.section != "env_vars" && !scenario.contains(row.section)) continue;
      json& section = scenario[std::string(row.section)];
      const std::string key(row.key);
      if (!row.written && section.contains(key) && !section[key].is_null()) continue;
      section[key] = json::parse(row.value);
      assumed.push_back(std::string(row.section) + "." + key);
    }
  }
  target(scenario, resolved, assumed);
  return assumed;
}

}  // namespace stepsim
