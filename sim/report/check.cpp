#include "sim/report/check.h"

#include <algorithm>

namespace stepsim {

namespace {

bool can_be_sized(const Scenario& s) {
  // What makes a split of layers or a schedule impossible.
  static const std::vector<std::string> fatal{"world-not-divisible",
                                              "layers-not-divisible",
                                              "layers-per-stage-not-divisible",
                                              "layers-left-over",
                                              "stage-layers-too-many",
                                              "stage-layers-not-divisible",
                                              "uneven-split-needs-pp",
                                              "split-rules-exclude-each-other",
                                              "layout-broken",
                                              "layout-stages",
                                              "layout-against-vp",
                                              "microbatch-group-out-of-range",
                                              "last-microbatch-group-too-small",
                                              "expert-world-not-divisible",
                                              "ep-does-not-divide-experts"};
  if (s.costs || s.model.layers == 0) return false;
  // Programs, parameter tensors and groups are listed one by one: no more than a moment's worth.
  constexpr double most = 3e6;
  const double actions =
      static_cast<double>(s.batch.microbatches) * s.parallel.pp * s.parallel.chunks();
  const double tensors = s.model.layers * (12.0 + 4.0 * s.model.moe.experts / s.parallel.ep);
  if (actions > most || tensors > most || s.parallel.world() > most) return false;
  return std::none_of(s.findings.begin(), s.findings.end(), [](const Finding& f) {
    return f.kind == Finding::Kind::error &&
           std::find(fatal.begin(), fatal.end(), f.id) != fatal.end();
  });
}

}  // namespace

CheckReport make_check(const Scenario& s) {
  CheckReport report;
  report.valid = std::none_of(s.findings.begin(), s.findings.end(),
                              [](const Finding& f) { return f.kind == Finding::Kind::error; });
  if (s.model.layers > 0) {
    report.parameters = static_cast<double>(parameter_count(s.model, s.parallel.tp));
    report.active_parameters = static_cast<double>(active_parameter_count(s.model, s.parallel.tp));
    report.rule = rule_of_thumb(report.parameters, s.model, s.batch);
  }
  report.sized = can_be_sized(s);
  if (!report.sized) return report;
  report.straddling = straddling(Mesh(s.parallel), s.cluster.nvlink_domain);
  if (!s.model.tied_embeddings)
    std::erase_if(report.straddling,
                  [](const Straddling& x) { return x.kind == GroupKind::embedding; });
  if (!s.model.moe.present())
    std::erase_if(report.straddling, [](const Straddling& x) { return is_expert(x.kind); });
  report.stages = inventory(s);
  report.buckets = bucket_rows(s, report.stages);
  const auto peak = std::max_element(report.stages.begin(), report.stages.end(),
                                     [](const StageInventory& a, const StageInventory& b) {
                                       return a.memory.peak() < b.memory.peak();
                                     });
  report.memory = MemoryReport{.rank = peak->rank,
                               .sizes = peak->memory,
                               .capacity_bytes = s.cluster.device.memory_capacity.value};
  return report;
}

}  // namespace stepsim
