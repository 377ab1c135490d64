#include "sim/study/plan_html.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/report/html.h"
#include "sim/report/json_parts.h"

namespace stepsim {
namespace {

Json simulated_row_json(const LayoutPlan& plan, size_t place) {
  const PlanRow& row = plan.rows[place];
  const Figures& f = row.figures;
  const bool frontier =
      std::find(plan.frontier.begin(), plan.frontier.end(), place) != plan.frontier.end();
  return {{"gpus", plan.gpus},
          {"place", place},
          {"ranked", place < plan.ranked},
          {"frontier", frontier},
          {"layout", mesh_text(row.layout, plan.experts)},
          {"settings", settings_text(plan.space, row.layout)},
          {"step", f.step_seconds},
          {"tokens", or_null(f.tokens_per_second_per_gpu)},
          {"mfu", or_null(f.mfu)},
          {"needed", or_null(f.needed_bytes)},
          {"capacity", or_null(f.capacity_bytes)}};
}

Json asked_json(const RunQuestion& q) {
  return {{"tokens", or_null(q.tokens)},
          {"price_per_gpu_hour", or_null(q.price_per_gpu_hour)},
          {"budget", or_null(q.budget)},
          {"most_days", or_null(q.most_days)},
          {"save_seconds", q.checkpoints.save_seconds},
          {"restart_seconds", q.checkpoints.restart_seconds}};
}

}  // namespace

std::string plan_html(const std::vector<LayoutPlan>& plans, const RunQuestion& question,
                      const std::string& name, const LayoutPlan* winner) {
  Json out{{"schema", "stepsim.page/1"},
           {"kind", "plan"},
           {"name", name},
           {"winner", winner == nullptr ? Json() : Json(winner - plans.data())},
           {"question", asked_json(question)}};
  out["rows"] = Json::array();
  out["overrides"] = Json::array();
  for (const LayoutPlan& plan : plans) {
    for (size_t i = 0; i < plan.rows.size(); ++i)
      out["rows"].push_back(simulated_row_json(plan, i));
    for (size_t i = 0; i < plan.ranked; ++i)
      out["overrides"].push_back(as_overrides(plan.rows[i].scenario));
  }
  std::string data = out.dump(-1, ' ', true, Json::error_handler_t::replace);
  data.back() = ',';
  data += R"("plan":)" + plans_json(plans, question) + "}";
  return html_page(data, page_part(PagePart::plan));
}

}  // namespace stepsim
