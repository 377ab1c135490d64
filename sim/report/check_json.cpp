#include <nlohmann/json.hpp>

#include "sim/report/check.h"
#include "sim/report/json_parts.h"

namespace stepsim {

std::string check_json(const Scenario& scenario, const CheckReport& report) {
  Json out;
  out["schema"] = "stepsim.check/1";
  out["version"] = STEPSIM_VERSION;
  out["valid"] = report.valid;
  out["findings"] = findings_json(scenario.findings);
  out["effective"] = effective_json(scenario);
  out["not_modelled"] = scenario.not_modelled;
  out["mesh"] = mesh_json(scenario, report.straddling);
  out["buckets"] = buckets_json(report.buckets);
  out["memory"] = memory_json(report.memory);
  out["parameters"] = {
      {"total", report.parameters > 0 ? Json(report.parameters) : Json()},
      {"active", report.active_parameters > 0 ? Json(report.active_parameters) : Json()},
      {"by_rank", Json::array()}};
  for (const StageInventory& s : report.stages)
    out["parameters"]["by_rank"].push_back({{"rank", s.rank}, {"parameters", s.parameters()}});
  out["devices"] = Json::array();
  for (size_t i = 0; i < report.stages.size(); ++i)
    out["devices"].push_back({{"rank", report.stages[i].rank},
                              {"stage", i},
                              {"in_flight", report.stages[i].most_in_flight},
                              {"peak_bytes", report.stages[i].memory.peak()}});
  const auto thumb = [](const RuleOfThumb& r) {
    return Json{{"parameters", r.parameters},
                {"gradients", r.gradients},
                {"optimizer", r.optimizer},
                {"activations", r.activations},
                {"total", r.total()}};
  };
  const Parallelism& p = scenario.parallel;
  out["rule_of_thumb_bytes"] = {{"model", thumb(report.rule)},
                                {"gpu", thumb(report.rule.per_gpu(p.tp, p.pp))}};
  return out.dump(2) + "\n";
}

}  // namespace stepsim
