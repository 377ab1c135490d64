#include "sim/report/json.h"

#include <array>
#include <nlohmann/json.hpp>

#include "sim/report/json_parts.h"

namespace stepsim {

std::string_view name(Finding::Kind kind) {
  constexpr std::array<std::string_view, 4> names{"silent", "error", "unit", "advice"};
  return names[static_cast<size_t>(kind)];
}

std::string_view name(Dtype type) {
  constexpr std::array<std::string_view, dtype_count> names{"fp32", "tf32",      "bf16",  "fp16",
                                                            "fp8",  "fp8_block", "mxfp8", "nvfp4"};
  return names[static_cast<size_t>(type)];
}

namespace {

/// A cause can occur in this scenario; otherwise its share is null, not 0.
bool applies(Cause cause, const Scenario& s, const Report& r) {
  const Parallelism& p = s.parallel;
  const bool kernels = !s.costs;
  switch (cause) {
    case Cause::contention:
      return r.compute_contends;
    case Cause::optimizer:
    case Cause::host:
      return kernels;
    case Cause::exposed_tp:
      return kernels && p.tp > 1;
    case Cause::exposed_cp:
      return kernels && p.cp > 1;
    case Cause::exposed_pp:
      return p.pp > 1;
    case Cause::exposed_dp:
      return kernels && p.world() > 1;  // the norm is reduced over all ranks
    case Cause::exposed_embedding:
      return kernels && p.ends_apart() && (s.model.tied_embeddings || s.model.mtp_layers > 0);
    case Cause::exposed_ep:
      return kernels && s.model.moe.present() && p.ep * p.etp > 1;
    case Cause::exposed_edp:
      return kernels && s.model.moe.present() && p.edp() > 1;
    case Cause::exposed_offload:
      return kernels &&
             (s.offloaded_layers > 0 || s.module_offload.any() || s.host_optimizer.any());
    case Cause::compute:
    case Cause::bubble:
    case Cause::skew:
      return true;
  }
  return true;
}

/// Fractions of the step. Causes that cannot occur or are not simulated are null.
Json ledger(const Ledger& ledger, const Scenario& scenario, const Report& report) {
  Json out;
  const auto put = [&](Cause c) {
    out[std::string(name(c))] = report.step_seconds > 0 && applies(c, scenario, report)
                                    ? Json(ledger[c] / report.step_seconds)
                                    : Json();
  };
  for (const Cause c : {Cause::compute, Cause::contention, Cause::optimizer, Cause::host,
                        Cause::bubble, Cause::skew, Cause::exposed_tp, Cause::exposed_cp})
    put(c);
  put(Cause::exposed_ep);
  put(Cause::exposed_pp);
  put(Cause::exposed_dp);
  put(Cause::exposed_edp);
  put(Cause::exposed_embedding);
  put(Cause::exposed_offload);
  return out;
}

Json efficiency(const CommunicationTable& table) {
  const auto of = [](const std::optional<Communication>& c) {
    return c ? or_null(c->efficiency()) : Json();
  };
  const auto of_class = [&](CommClass c) { return of(table.by_class[static_cast<size_t>(c)]); };
  return {{"overall", of(table.overall)},   {"tp", of_class(CommClass::tp)},
          {"cp", of_class(CommClass::cp)},  {"ep", of_class(CommClass::ep)},
          {"pp", of_class(CommClass::pp)},  {"dp", of_class(CommClass::dp)},
          {"edp", of_class(CommClass::edp)}};
}

Json communication_seconds(const CommunicationTable& table) {
  const auto of = [&](CommClass c) -> Json {
    const std::optional<Communication>& row = table.by_class[static_cast<size_t>(c)];
    if (!row) return nullptr;
    return {{"total", row->total_seconds},
            {"hidden", row->hidden_seconds},
            {"not_hidden", row->not_hidden_seconds()},
            {"waiting", row->waiting_seconds}};
  };
  return {{"tp", of(CommClass::tp)},
          {"cp", of(CommClass::cp)},
          {"ep", of(CommClass::ep)},
          {"pp", of(CommClass::pp)},
          {"dp", of(CommClass::dp)},
          {"edp", of(CommClass::edp)},
          {"embedding", of(CommClass::embedding)}};
}

}  // namespace

std::string report_json(const Scenario& scenario, const Report& report,
                        const std::optional<Timing>& timing, const ExposedTable* exposed) {
  Json out;
  out["schema"] = "stepsim.report/1";
  out["version"] = STEPSIM_VERSION;
  out["scenario"] = scenario.resolved_json.empty() ? Json() : parsed_json(scenario.resolved_json);
  out["step_time_seconds"] = report.step_seconds;
  out["interval"] = report.interval ? Json{{"low_seconds", report.interval->low_seconds},
                                           {"high_seconds", report.interval->high_seconds},
                                           {"level", report.interval->level},
                                           {"widest", std::string(report.interval->widest)},
                                           {"widest_share", report.interval->widest_share}}
                                    : Json();
  out["tokens_per_second_per_gpu"] = or_null(report.tokens_per_second_per_gpu);
  out["model_tflops_per_gpu"] = report.model_flops_per_second_per_gpu
                                    ? Json(*report.model_flops_per_second_per_gpu / 1e12)
                                    : Json();
  out["mfu"] = or_null(report.mfu);
  out["hfu"] = or_null(report.hfu);
  out["bubble_fraction"] = report.bubble_fraction;
  out["overlap_efficiency"] = efficiency(report.communication);
  out["communication_seconds"] = communication_seconds(report.communication);
  out["ledger"] = ledger(report.ledger, scenario, report);
  out["devices"] = Json::array();
  for (const DeviceReport& d : report.devices)
    out["devices"].push_back({{"rank", d.rank},
                              {"represents", d.represents},
                              {"stage", d.stage},
                              {"ledger", ledger(d.ledger, scenario, report)},
                              {"phase_seconds",
                               {{"forward", d.phases.forward_seconds},
                                {"backward", d.phases.backward_seconds},
                                {"optimizer", d.phases.optimizer_seconds}}},
                              {"peak_bytes", or_null(d.peak_bytes)}});
  out["memory"] = memory_json(report.memory);
  out["critical_path"] = Json::array();
  for (const PathPart& p : report.critical_path)
    out["critical_path"].push_back({{"kind", p.kind}, {"seconds", p.seconds}});
  out["faults"] = faults_json(report);
  out["step_distribution"] = distribution_json(report);
  out["findings"] = findings_json(scenario.findings);
  out["effective"] = effective_json(scenario);
  out["not_modelled"] = scenario.not_modelled;
  out["mesh"] = mesh_json(scenario, report.straddling);
  out["buckets"] = buckets_json(report.buckets);
  out["counts"] = {
      {"gpus", report.gpus}, {"simulated_devices", report.devices.size()}, {"tasks", report.tasks}};
  if (exposed != nullptr) out["exposed"] = exposed_json(*exposed);
  if (timing) {
    out["timing"] = {
        {"lower_seconds", timing->lower_seconds},
        {"engine_seconds", timing->engine_seconds},
        {"tasks_per_second",
         timing->engine_seconds > 0 ? Json(report.tasks / timing->engine_seconds) : Json()}};
  }
  return out.dump(2) + "\n";
}

}  // namespace stepsim
