#include "sim/report/json_parts.h"

#include <nlohmann/json.hpp>

#include "sim/report/json.h"

namespace stepsim {

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
Json or_null(const std::optional<int>& value) { return value ? Json(*value) : Json(); }

Json parsed_json(const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

Json memory_json(const std::optional<MemoryReport>& memory) {
  if (!memory) return nullptr;
  const DeviceMemory& m = memory->sizes;
  return {{"peak_bytes", memory->peak_bytes()},
          {"rank", memory->rank},
          {"reserve_bytes", m.reserve},
          {"capacity_bytes", memory->capacity_bytes},
          {"fits", memory->fits()},
          {"by_class",
           {{"parameters", m.parameters},
            {"gradients", m.gradients},
            {"optimizer", m.optimizer},
            {"activations", m.activations},
            {"logits", m.logits},
            {"buffers", m.buffers}}}};
}

Json faults_json(const Report& report) {
  if (!report.faults) return nullptr;
  const FaultCost& f = *report.faults;
  Json late = Json::array();
  for (const LateDevice& d : f.late)
    late.push_back({{"rank", d.rank}, {"stage", d.stage}, {"late_seconds", d.late_seconds}});
  return {
      {"step_time_without_seconds", f.sound_step_seconds},
      {"cost_seconds", report.step_seconds - f.sound_step_seconds},
      {"late", late},
      {"critical",
       {{"rank", f.critical_rank}, {"stage", f.critical_stage}, {"seconds", f.critical_seconds}}}};
}

Json distribution_json(const Report& report) {
  if (!report.routing_samples) return nullptr;
  const StepDistribution& d = *report.routing_samples;
  return {{"samples", d.samples},
          {"p50_seconds", d.p50_seconds},
          {"mean_seconds", d.mean_seconds},
          {"p90_seconds", d.p90_seconds},
          {"max_seconds", d.max_seconds}};
}

Json findings_json(const std::vector<Finding>& findings) {
  Json out = Json::array();
  for (const Finding& f : findings)
    out.push_back({{"id", f.id},
                   {"kind", name(f.kind)},
                   {"key", f.key},
                   {"pointer", f.pointer},
                   {"requested", f.requested},
                   {"effective", f.effective},
                   {"reason", f.reason}});
  return out;
}

Json mesh_json(const Scenario& scenario, const std::vector<Straddling>& straddling) {
  const Parallelism& p = scenario.parallel;
  const bool moe = scenario.model.moe.present();
  Json groups = Json::array();
  for (const Straddling& s : straddling)
    groups.push_back({{"group", name(s.kind)},
                      {"groups", s.groups},
                      {"domains", s.domains},
                      {"total", s.total},
                      {"members", s.members}});
  return {{"world", p.world()},
          {"tp", p.tp},
          {"pp", p.pp},
          {"vp", or_null(p.vp)},
          {"cp", p.cp},
          {"dp", p.dp},
          {"ep", moe ? Json(p.ep) : Json()},
          {"etp", moe ? Json(p.etp) : Json()},
          {"edp", moe ? Json(p.edp()) : Json()},
          {"min_gpus", Mesh(p).min_gpus()},
          {"microbatches", scenario.batch.microbatches},
          {"schedule", name(scenario.schedule)},
          {"straddling", groups}};
}

Json effective_json(const Scenario& scenario) {
  Json out = Json::object();
  for (const auto& [key, value] : scenario.effective) out[key] = parsed_json(value);
  return out;
}

Json buckets_json(const std::vector<BucketRow>& buckets) {
  Json out = Json::array();
  for (const BucketRow& b : buckets)
    out.push_back({{"stage", b.stage},
                   {"chunk", b.chunk},
                   {"count", b.count},
                   {"elements", b.elements},
                   {"bytes", b.bytes}});
  return out;
}

}  // namespace stepsim
