// A sweep as one page that needs nothing else: what sim/report/page/sweep.js draws.
#include <nlohmann/json.hpp>

#include "sim/report/html.h"
#include "sim/report/json_parts.h"
#include "sim/study/sweep.h"

namespace stepsim {
namespace {

Json axis_json(const Axis& axis) {
  Json points = Json::array();
  for (const Point& point : axis.points) points.push_back(values_text(point));
  return {{"name", axis_text(axis)}, {"keys", axis.keys}, {"points", std::move(points)}};
}

Json swept_row_json(const SweepRow& row) {
  Json out{{"point", point_text(row.point)},
           {"done", row.done},
           {"feasible", row.feasible()},
           {"why", row.done ? reason(row) : "not run"}};
  if (!row.done || row.outcome.failed()) return out;
  const Figures& f = row.figures;
  out["step"] = f.step_seconds;
  out["low"] = f.low_seconds;
  out["high"] = f.high_seconds;
  out["tokens"] = or_null(f.tokens_per_second_per_gpu);
  out["mfu"] = or_null(f.mfu);
  out["bubble"] = f.bubble_fraction;
  out["overlap"] = or_null(f.overlap_efficiency);
  out["needed"] = or_null(f.needed_bytes);
  out["capacity"] = or_null(f.capacity_bytes);
  out["gpus"] = f.gpus;
  out["ledger"] = Json::object();
  for (const auto& [cause, seconds] : f.ledger) out["ledger"][cause] = seconds;
  return out;
}

}  // namespace

std::string sweep_html(const Sweep& sweep) {
  Json out{{"schema", "stepsim.page/1"},
           {"kind", "sweep"},
           {"version", STEPSIM_VERSION},
           {"file", sweep.file},
           {"complete", sweep.complete()},
           {"aim", sweep.aim == SweepAim::step ? "step" : "tokens"},
           {"best", sweep.best == Sweep::none ? Json() : Json(sweep.best)}};
  out["axes"] = Json::array();
  for (const Axis& axis : sweep.axes) out["axes"].push_back(axis_json(axis));
  out["rows"] = Json::array();
  for (const SweepRow& row : sweep.rows) out["rows"].push_back(swept_row_json(row));
  return html_page(out.dump(-1, ' ', true, Json::error_handler_t::replace),
                   page_part(PagePart::sweep));
}

}  // namespace stepsim
