#include "sim/report/html.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/html_parts.h"
#include "sim/report/json.h"

namespace stepsim {
namespace {

/// Blocks that a page draws; of more, some devices are left out, evenly.
constexpr size_t most_blocks = 120000;

std::vector<uint32_t> drawn_devices(const Blocks& blocks) {
  const size_t all = blocks.offsets.size() - 1;
  const double each =
      static_cast<double>(blocks.rows.size()) / static_cast<double>(std::max<size_t>(all, 1));
  const auto fit = static_cast<size_t>(most_blocks / std::max(each, 1.0));
  const size_t drawn = std::min(all, std::clamp<size_t>(fit, 2, 128));
  std::vector<uint32_t> devices;
  for (size_t i = 0; i < drawn; ++i)
    devices.push_back(static_cast<uint32_t>(drawn < 2 ? 0 : i * (all - 1) / (drawn - 1)));
  return devices;
}

/// A power of ten, so that the step has seven or eight digits.
double tick_of(double seconds) {
  if (!(seconds > 0)) return 1e-9;
  return std::pow(10, std::ceil(std::log10(seconds)) - 8);
}

Drawing drawing_of(const Scenario& scenario, const LoweredStep& step, const Timeline& timeline) {
  const StepEnd end = step_end(step, timeline);
  const bool halves =
      schedule_name(scenario.schedule).splits || scenario.schedule == ScheduleKind::order;
  Drawing d{.scenario = scenario,
            .step = step,
            .timeline = timeline,
            .end = end,
            .blocks = merged_blocks(step, timeline, end, halves),
            .devices = {}};
  d.devices = drawn_devices(d.blocks);
  for (size_t device = 0; device < step.devices.size(); ++device)
    d.finish_seconds = std::max(d.finish_seconds, end.finish(device));
  d.tick_seconds = tick_of(d.finish_seconds);
  return d;
}

Json title_json(const Scenario& s, const Report& r) {
  return {{"name", s.name},
          {"description", s.description},
          {"source", s.source},
          {"model", s.costs ? "" : s.model.name},
          {"given_costs", s.costs.has_value()},
          {"layers", s.model.layers},
          {"vp", or_null(s.parallel.vp)},
          {"experts", s.parallel.experts},
          {"sequence_parallel", s.parallel.sequence_parallel},
          {"placement", static_cast<int>(s.parallel.placement)},
          {"global_batch", s.batch.global},
          {"micro_batch", s.batch.micro},
          {"sequence", s.batch.sequence},
          {"precision", s.precision.recipe},
          {"system", s.costs ? "" : s.cluster.system},
          {"nodes", s.cluster.nodes},
          {"gpus_per_node", s.cluster.gpus_per_node},
          {"device", s.costs ? "" : s.cluster.device.name},
          {"peak_flops_per_second", r.peak.value},
          {"peak_dtype", name(r.peak_dtype)},
          {"measured_step_seconds", s.overridden ? Json() : or_null(s.measured_step_seconds)}};
}

/// `text` with each "{{word}}" replaced; what is put in is not looked at again.
std::string filled(std::string_view text,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> words) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find("{{"), close = text.find("}}", open);
    out += text.substr(0, open);
    if (open == text.npos || close == text.npos) break;
    const std::string_view word = text.substr(open + 2, close - open - 2);
    for (const auto& [key, value] : words)
      if (key == word) out += value;
    text.remove_prefix(close + 2);
  }
  return out;
}

}  // namespace

std::string page_data(const Scenario& scenario, const LoweredStep& step, const Timeline& timeline,
                      const Report& report) {
  const Drawing drawing = drawing_of(scenario, step, timeline);
  Json out{{"schema", "stepsim.page/1"}, {"kind", "run"}};
  out["title"] = title_json(scenario, report);
  out["report"] = parsed_json(report_json(scenario, report));
  out["timeline"] = timeline_json(drawing);
  out["detail"] = detail_json(drawing);
  out["activity"] = activity_json(drawing);
  out["memory"] = memory_series_json(drawing);
  out["placement"] = placement_json(drawing);
  return out.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string side_data(const Scenario& scenario, const LoweredStep& step, const Timeline& timeline,
                      const Report& report) {
  const Drawing drawing = drawing_of(scenario, step, timeline);
  const Json out{{"title", title_json(scenario, report)}, {"timeline", timeline_json(drawing)}};
  return out.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string html_page(std::string_view data, std::string_view program) {
  // In a script block only "<" could end or change it; in JSON it stands in strings alone.
  std::string safe;
  safe.reserve(data.size());
  for (const char c : data) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return filled(page_part(PagePart::skeleton), {{"style", page_part(PagePart::style)},
                                                {"data", safe},
                                                {"parts", page_part(PagePart::parts)},
                                                {"program", program}});
}

std::string report_html(const Scenario& scenario, const LoweredStep& step, const Timeline& timeline,
                        const Report& report) {
  return html_page(page_data(scenario, step, timeline, report), page_part(PagePart::report));
}

}  // namespace stepsim
