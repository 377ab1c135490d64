#include <algorithm>
#include <array>

#include "sim/report/check.h"
#include "sim/report/json.h"
#include "sim/report/page.h"

namespace stepsim {

namespace {

constexpr double gb = 1e9;

void write_title(Page& page, const Scenario& s, const CheckReport& r) {
  const Parallelism& p = s.parallel;
  std::string layout = fmt::format("TP={} PP={} DP={} CP={}", p.tp, p.pp, p.dp, p.cp);
  if (p.vp) layout += fmt::format(" VP={}", *p.vp);
  if (s.model.moe.present()) layout += fmt::format(" EP={} ETP={} EDP={}", p.ep, p.etp, p.edp());
  const std::string subject = s.model.name.empty() ? s.name : s.model.name;
  if (s.costs)
    page.line("{} (given costs): {}", subject, layout);
  else
    page.line("{} on {} x {}: {}", subject, s.cluster.gpus, s.cluster.device.name, layout);
  const auto count = [&](Finding::Kind kind) {
    return std::count_if(s.findings.begin(), s.findings.end(),
                         [kind](const Finding& f) { return f.kind == kind; });
  };
  page.line("{}   {} error{}, {} changed without a word, {} about units, {} advice",
            r.valid ? "VALID" : "NOT VALID: Megatron would refuse this.",
            count(Finding::Kind::error), count(Finding::Kind::error) == 1 ? "" : "s",
            count(Finding::Kind::silent), count(Finding::Kind::unit), count(Finding::Kind::advice));
}

void write_all_findings(Page& page, const Scenario& s) {
  if (s.findings.empty()) return;
  page.blank();
  constexpr std::array<std::pair<Finding::Kind, std::string_view>, 4> kinds{
      {{Finding::Kind::error, "Error    "},
       {Finding::Kind::silent, "Changed  "},
       {Finding::Kind::unit, "Unit     "},
       {Finding::Kind::advice, "Advice   "}}};
  for (const auto& [kind, heading] : kinds)
    for (const Finding& f : s.findings) {
      if (f.kind != kind) continue;
      std::string what = f.key;
      if (!f.requested.empty()) what += " " + f.requested;
      if (!f.effective.empty() && f.effective != f.requested) what += " -> " + f.effective;
      page.paragraph(heading, fmt::format("{}: {} [{}]", what, f.reason, f.id), 4);
    }
}

void write_sizes(Page& page, const Scenario& s, const CheckReport& r) {
  const Parallelism& p = s.parallel;
  page.blank();
  page.line("DP       = world / (TP x PP x CP) = {} / ({} x {} x {}) = {}", s.cluster.gpus, p.tp,
            p.pp, p.cp, p.dp);
  const int64_t dense = int64_t{p.tp} * p.cp, expert = int64_t{p.ep} * p.etp;
  if (s.model.moe.present()) {
    page.line("EDP      = world / (PP x EP x ETP) = {} / ({} x {} x {}) = {}", s.cluster.gpus, p.pp,
              p.ep, p.etp, p.edp());
  }
  page.line("min_gpus = PP x max(TP x CP, EP x ETP) = {} x max({}, {}) = {}", p.pp, dense, expert,
            Mesh(p).min_gpus());
  if (s.model.moe.present())
    page.paragraph(
        "",
        fmt::format(
            "never the product TP x CP x PP x EP x ETP = {:.0f}: both meshes share the "
            "same ranks. Keep TP inside an NVLink domain of {}; SP must be on when "
            "TP > 1 ({}); the sequence must be a multiple of 2 x CP = {}; beyond 32K "
            "tokens consider CP 4-8.",
            static_cast<double>(p.pp) * static_cast<double>(dense) * static_cast<double>(expert),
            s.cluster.nvlink_domain, p.sequence_parallel ? "it is" : "it is not", 2 * p.cp),
        3);
  page.line("microbatches = GBS / (MBS x DP) = {} / ({} x {}) = {}, {}", s.batch.global,
            s.batch.micro, p.dp, s.batch.microbatches, name(s.schedule));
  if (r.parameters > 0)
    page.line("parameters   = {:.3f} billion{}", r.parameters / 1e9,
              s.model.moe.present()
                  ? fmt::format(", {:.3f} billion active", r.active_parameters / 1e9)
                  : "");
}

void write_groups(Page& page, const Scenario& s, const CheckReport& r) {
  const Mesh mesh(s.parallel);
  page.blank();
  page.line("{:<12}{:>6}{:>9}{:>12}   NVLink domains of {} GPUs", "Groups", "size", "groups",
            "straddling", s.cluster.nvlink_domain);
  for (int k = 0; k < group_kind_count; ++k) {
    const auto kind = static_cast<GroupKind>(k);
    const bool moe = is_expert(kind);
    if (mesh.group_size(kind) < 2 || (moe && !s.model.moe.present())) continue;
    if (kind == GroupKind::embedding && !s.model.tied_embeddings) continue;
    const auto row = std::find_if(r.straddling.begin(), r.straddling.end(),
                                  [&](const Straddling& x) { return x.kind == kind; });
    const int groups = kind == GroupKind::embedding ? mesh.world() / s.parallel.pp
                                                    : mesh.world() / mesh.group_size(kind);
    if (row == r.straddling.end()) {
      page.line("  {:<10}{:>6}{:>9}{:>12}   inside", name(kind), mesh.group_size(kind), groups, 0);
      continue;
    }
    std::string members;
    for (size_t i = 0; i < row->members.size() && i < 8; ++i)
      members += (i > 0 ? "+" : "") + std::to_string(row->members[i]);
    if (row->members.size() > 8) members += "+...";
    page.line("  {:<10}{:>6}{:>9}{:>12}   up to {} domains, members {}", name(kind),
              mesh.group_size(kind), groups, row->groups, row->domains, members);
  }
}

void write_memory(Page& page, const Scenario& s, const CheckReport& r) {
  if (!r.memory) return;
  const DeviceMemory& m = r.memory->sizes;
  const RuleOfThumb thumb = r.rule.per_gpu(s.parallel.tp, s.parallel.pp);
  page.blank();
  page.line("Memory of rank {} (the fullest){:>20}{:>28}", r.memory->rank, "GiB",
            "rule of thumb, GB a GPU");
  const auto row = [&](std::string_view what, double bytes, double rule) {
    if (bytes <= 0 && rule <= 0) return;
    page.line("  {:<38}{:>12.2f}{:>28}", what, bytes / gib,
              rule > 0 ? fmt::format("{:.2f}", rule / gb) : "-");
  };
  row("parameters", m.parameters, thumb.parameters);
  row("gradients", m.gradients, thumb.gradients);
  row("optimizer", m.optimizer, thumb.optimizer);
  row("activations", m.activations, thumb.activations);
  row("logits", m.logits, 0);
  row("buffers", m.buffers, 0);
  row("peak", m.peak(), thumb.total());
  row("reserve (context, framework, NCCL)", m.reserve, 0);
  const double need = m.peak() + m.reserve, capacity = r.memory->capacity_bytes;
  page.line("  {} in {:.1f} GiB: {:.1f} GiB {}", r.memory->fits() ? "fits" : "DOES NOT FIT",
            capacity / gib, std::abs(capacity - need) / gib,
            r.memory->fits() ? "free" : "too much");
  page.paragraph(
      "  ",
      fmt::format("They differ because the rule counts Adam at 4 bytes and never sharded, "
                  "gradients at 2 bytes, and one microbatch in flight; here {} microbatch-chunks "
                  "are in flight "
                  "on that rank and the optimizer is spread over {} ranks.",
                  r.stages[static_cast<size_t>(Mesh(s.parallel).coordinates(r.memory->rank).pp)]
                      .most_in_flight,
                  s.data_parallel.distributed_optimizer ? s.parallel.dp * s.parallel.cp : 1),
      3);
}

}  // namespace

std::string check_text(const Scenario& scenario, const CheckReport& report) {
  Page page(page_width);
  write_title(page, scenario, report);
  write_all_findings(page, scenario);
  if (!scenario.costs) write_sizes(page, scenario, report);
  if (report.sized) {
    write_groups(page, scenario, report);
    write_memory(page, scenario, report);
  }
  if (!scenario.not_modelled.empty()) {
    page.blank();
    page.list("Not modelled   ", scenario.not_modelled, 3);
  }
  return page.text();
}

}  // namespace stepsim
