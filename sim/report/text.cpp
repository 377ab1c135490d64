#include "sim/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/report/json.h"
#include "sim/report/page.h"

namespace stepsim {
namespace {

std::string_view plain_words(Cause c) {
  constexpr std::array<std::string_view, cause_count> words{"compute",
                                                            "contention",
                                                            "optimizer",
                                                            "host (step overhead, launches)",
                                                            "pipeline bubble",
                                                            "skew (slower peer, faults)",
                                                            "exposed tp communication",
                                                            "exposed cp communication",
                                                            "exposed pp communication",
                                                            "exposed dp communication",
                                                            "exposed embedding all-reduce",
                                                            "exposed ep communication",
                                                            "exposed edp communication",
                                                            "exposed offload traffic"};
  return words[static_cast<size_t>(c)];
}

/// Seconds as a headline: 9.123 s, 812.345 ms, 812.3 us.
std::string duration(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} us", seconds * 1e6);
}

/// Formats milliseconds of one report with the same number of decimals everywhere.
class Milliseconds {
 public:
  explicit Milliseconds(double step_seconds)
      : decimals_(step_seconds >= 1      ? 1
                  : step_seconds >= 0.01 ? 2
                                         : 4) {}
  std::string operator()(double seconds) const {
    return fmt::format("{:.{}f}", seconds * 1e3, decimals_);
  }

 private:
  int decimals_;
};

std::string percent(double fraction) { return fmt::format("{:.1f} %", fraction * 100); }

void write_title(Page& page, const Scenario& s, const Report& r) {
  const Parallelism& p = s.parallel;
  std::string layout = fmt::format("TP{} PP{}", p.tp, p.pp);
  if (p.vp) layout += fmt::format(" VP{}", *p.vp);
  layout += fmt::format(" CP{} DP{}", p.cp, p.dp);
  if (p.experts) layout += fmt::format(" EP{}", p.ep);
  if (p.experts && p.etp > 1) layout += fmt::format(" ETP{}", p.etp);
  if (p.sequence_parallel) layout += " SP";
  const std::string subject = s.costs ? s.name.empty() ? "given costs" : s.name + " (given costs)"
                              : s.model.name.empty() ? s.name
                                                     : s.model.name;
  page.line("{} on {} GPU{}: {}, {}, {} microbatches", subject, r.gpus, r.gpus == 1 ? "" : "s",
            layout, name(s.schedule), s.batch.microbatches);
  if (s.costs) {
    page.line("GBS {}, MBS {}; times per stage as given{}", s.batch.global, s.batch.micro,
              s.model.layers > 0 ? "; kernels and the cluster are not used" : ", no model");
    return;
  }
  page.line("GBS {}, MBS {}, sequence {}, {}; {}, {} node{} of {} x {}", s.batch.global,
            s.batch.micro, s.batch.sequence, s.precision.recipe, s.cluster.system, s.cluster.nodes,
            s.cluster.nodes == 1 ? "" : "s", s.cluster.gpus_per_node, s.cluster.device.name);
}

void write_fit(Page& page, const MemoryReport& m) {
  const double need = m.peak_bytes() + m.sizes.reserve;
  const std::string sum = fmt::format("{:.1f} GiB peak on rank {} + {:.1f} GiB reserve",
                                      m.peak_bytes() / gib, m.rank, m.sizes.reserve / gib);
  if (m.fits()) {
    page.line("Memory         fits: {} of {:.1f} GiB, {:.1f} GiB free", sum, m.capacity_bytes / gib,
              (m.capacity_bytes - need) / gib);
  } else {
    page.paragraph("DOES NOT FIT   ",
                   fmt::format("{} is {:.1f} GiB more than the {:.1f} GiB of the device", sum,
                               (need - m.capacity_bytes) / gib, m.capacity_bytes / gib),
                   2);
    const std::pair<double, std::string_view> classes[] = {
        {m.sizes.parameters + m.sizes.gradients,
         "parameters and gradients: more TP or PP shrinks them"},
        {m.sizes.optimizer, "the optimizer: the distributed optimizer or more DP shrinks it"},
        {m.sizes.activations,
         "activations: recompute, more TP with SP, more CP or a smaller micro batch shrinks them"},
        {m.sizes.logits, "logits: more TP or a smaller micro batch shrinks them"}};
    const auto& [bytes, what] = *std::max_element(std::begin(classes), std::end(classes));
    page.paragraph("               ", fmt::format("largest: {:.1f} GiB of {}", bytes / gib, what),
                   2);
  }
}

void write_headline(Page& page, const Scenario& s, const Report& r) {
  if (r.memory && !r.memory->fits()) write_fit(page, *r.memory);
  std::string measured;
  if (s.measured_step_seconds && s.overridden)
    measured = fmt::format("   the file's measured time {} is for its own settings",
                           duration(*s.measured_step_seconds));
  else if (s.measured_step_seconds)
    measured = fmt::format("   measured {}, error {:+.1f} %", duration(*s.measured_step_seconds),
                           (r.step_seconds / *s.measured_step_seconds - 1) * 100);
  page.line("Step time      {}{}", duration(r.step_seconds), measured);
  if (r.interval) {
    page.line("               {} to {} in {:.0f} % of cases; most of the doubt: {}",
              duration(r.interval->low_seconds), duration(r.interval->high_seconds),
              100 * r.interval->level, r.interval->widest);
    page.line(
        "               counted: kernels, links, host, clocks, releases; not a run set up "
        "otherwise");
  }
  if (r.tokens_per_second_per_gpu && r.model_flops_per_second_per_gpu)
    page.line("Throughput     {:.1f} tokens/s/GPU   {:.1f} model TFLOP/s/GPU",
              *r.tokens_per_second_per_gpu, *r.model_flops_per_second_per_gpu / 1e12);
  if (r.mfu) {
    const bool recompute = r.hfu && *r.hfu > *r.mfu * (1 + 1e-9);
    page.line("MFU            {} of {:.1f} TFLOP/s, the dense {} peak{}", percent(*r.mfu),
              r.peak.value / 1e12, name(r.peak_dtype),
              recompute ? "   HFU " + percent(*r.hfu) + " with recompute" : "");
  }
  if (r.memory && r.memory->fits()) write_fit(page, *r.memory);
}

void write_ledger(Page& page, const Report& r, const Milliseconds& ms) {
  page.line("{:<36}{:>13}{:>10}", fmt::format("Where the step goes (mean rank of {})", r.gpus),
            "ms", "share");
  std::array<Cause, cause_count> order{};
  for (size_t c = 0; c < order.size(); ++c) order[c] = static_cast<Cause>(c);
  std::stable_sort(order.begin(), order.end(),
                   [&](Cause a, Cause b) { return r.ledger[a] > r.ledger[b]; });
  for (const Cause c : order) {
    const double share = r.step_seconds > 0 ? r.ledger[c] / r.step_seconds : 0;
    // What rounds to nothing is left out, except the bubble, which everyone looks for.
    if (share < 5e-5 && !(c == Cause::bubble && share > 0)) continue;
    page.line("  {:<34}{:>13}{:>10}  {}", plain_words(c), ms(r.ledger[c]), percent(share),
              std::string(static_cast<size_t>(std::lround(share * 38)), '#'));
  }
}

void write_communication(Page& page, const Report& r, const Milliseconds& ms) {
  const CommunicationTable& table = r.communication;
  if (!table.overall || table.overall->total_seconds <= 0) return;
  page.blank();
  page.line("{:<19}{:>13}{:>13}{:>13}{:>17}{:>13}", "Overlap, mean rank", "bytes move", "hidden",
            "not hidden", "waits for peer", "efficiency");
  const auto row = [&](std::string_view what, const std::optional<Communication>& c) {
    if (!c || (c->total_seconds <= 0 && c->waiting_seconds <= 0)) return;
    const std::optional<double> efficiency = c->efficiency();
    page.line("  {:<17}{:>10} ms{:>10} ms{:>10} ms{:>14} ms{:>13}", what, ms(c->total_seconds),
              ms(c->hidden_seconds), ms(c->not_hidden_seconds()), ms(c->waiting_seconds),
              efficiency ? percent(*efficiency) : "-");
  };
  row("all", table.overall);
  for (int c = 1; c < comm_class_count; ++c)
    row(name(static_cast<CommClass>(c)), table.by_class[static_cast<size_t>(c)]);
}

/// At most `max_rows` devices, evenly spread, both ends of the pipeline included.
std::vector<size_t> devices_to_show(const Report& report, size_t max_rows) {
  const std::vector<DeviceReport>& devices = report.devices;
  std::vector<size_t> shown;
  const size_t n = devices.size();
  // One more fits where the line about those left out would stand.
  const size_t rows = n <= max_rows + 1 ? n : max_rows;
  for (size_t i = 0; i < rows; ++i) shown.push_back(rows < 2 ? 0 : i * (n - 1) / (rows - 1));
  // The device that needs most memory is always among them, and the latest.
  const auto show = [&](auto which) {
    const auto at = static_cast<size_t>(which - devices.begin());
    if (at >= n || std::find(shown.begin(), shown.end(), at) != shown.end()) return;
    shown.push_back(at);
    std::sort(shown.begin(), shown.end());
  };
  show(std::max_element(devices.begin(), devices.end(),
                        [](const DeviceReport& a, const DeviceReport& b) {
                          return a.peak_bytes.value_or(0) < b.peak_bytes.value_or(0);
                        }));
  if (report.faults && !report.faults->late.empty())
    show(std::find_if(devices.begin(), devices.end(), [&](const DeviceReport& d) {
      return d.rank == report.faults->late[0].rank;
    }));
  return shown;
}

void write_stages(Page& page, const Report& r, const Milliseconds& ms) {
  page.blank();
  page.line("{:>5}{:>9}{:>9}{:>14}{:>14}{:>14}{:>14}{:>12}", "Stage", "rank", "for", "compute",
            "bubble", "exposed comm", "other", "peak");
  const std::vector<size_t> shown = devices_to_show(r, 8);
  for (const size_t i : shown) {
    const DeviceReport& d = r.devices[i];
    const double compute = d.ledger[Cause::compute], bubble = d.ledger[Cause::bubble];
    const double exposed = d.ledger.exposed();
    const double other = d.ledger[Cause::contention] + d.ledger[Cause::optimizer] +
                         d.ledger[Cause::host] + d.ledger[Cause::skew];
    page.line("{:>5}{:>9}{:>9}{:>11} ms{:>11} ms{:>11} ms{:>11} ms{:>12}", d.stage, d.rank,
              fmt::format("x{}", d.represents), ms(compute), ms(bubble), ms(exposed), ms(other),
              d.peak_bytes ? fmt::format("{:.1f} GiB", *d.peak_bytes / gib) : "-");
  }
  if (shown.size() < r.devices.size())
    page.line("  ({} of {} simulated devices, evenly spread and the fullest; --json has all)",
              shown.size(), r.devices.size());
}

void write_path(Page& page, const Report& r, const Milliseconds& ms) {
  std::vector<std::string> parts;
  for (const PathPart& p : r.critical_path)
    parts.push_back(
        fmt::format("{} {} ms ({})", p.kind, ms(p.seconds), percent(p.seconds / r.step_seconds)));
  if (!parts.empty()) page.list("Critical path  ", parts, 2);
}

std::string rank_name(int rank, int stage) {
  return fmt::format("rank {} (stage {})", rank, stage);
}

/// Through what kernels lose time to communication beside them; nothing when they lose none.
void write_contention(Page& page, const Report& r, const Milliseconds& ms) {
  if (!r.contention || r.contention->seconds() <= 1e-9 * r.step_seconds) return;
  const Contention& c = *r.contention;
  std::string text = fmt::format("SMs held by communication {} ms, memory bandwidth {} ms",
                                 ms(c.sm_seconds), ms(c.memory_seconds));
  if (const std::optional<double> slowdown = c.slowdown())
    text += fmt::format("; kernels take {} longer while it runs", percent(*slowdown));
  page.paragraph("Contention     ", text, 2);
}

/// Faults that slow transfers and no kernels; nothing without any.
std::string degraded_links(const Faults& faults) {
  int64_t ranks = 0;
  std::string one;
  for (size_t rank = 0; rank < faults.ranks.size(); ++rank) {
    const RankFault& f = faults.ranks[rank];
    if (f.nvlink_factor == 1 && f.nic_factor == 1) continue;
    ++ranks;
    one = f.nic_factor == 1      ? fmt::format("NVLink at {}", percent(f.nvlink_factor))
          : f.nvlink_factor == 1 ? fmt::format("NIC at {}", percent(f.nic_factor))
                                 : "NVLink and NIC";
    one = fmt::format("degraded: rank {}'s {}", rank, one);
  }
  if (!faults.sound_links.empty()) return "degraded: links of the graph";
  return ranks > 1 ? fmt::format("degraded: links of {} ranks", ranks) : one;
}

/// Counts what each late device stands for.
int64_t late_ranks(const Report& r) {
  int64_t ranks = 0;
  for (const LateDevice& late : r.faults->late)
    ranks += std::find_if(r.devices.begin(), r.devices.end(), [&](const DeviceReport& d) {
               return d.rank == late.rank;
             })->represents;
  return ranks;
}

/// What the injected faults cost, and who is late.
void write_faults(Page& page, const Scenario& s, const Report& r, const Milliseconds& ms) {
  if (!r.faults) return;
  const FaultCost& f = *r.faults;
  const std::string degraded = degraded_links(s.faults);
  std::string text;
  if (!f.late.empty()) {
    const LateDevice& latest = f.late[0];
    const int64_t more = late_ranks(r) - 1;
    text = more == 0 ? fmt::format("{} is {} ms late; ", rank_name(latest.rank, latest.stage),
                                   ms(latest.late_seconds))
                     : fmt::format("{} and {} more rank{} are late, by up to {} ms; ",
                                   rank_name(latest.rank, latest.stage), more, more == 1 ? "" : "s",
                                   ms(latest.late_seconds));
  } else if (!degraded.empty()) {
    text = "no rank computes later; ";
  }
  if (!degraded.empty()) text += degraded + "; ";
  const double saved = r.step_seconds - f.sound_step_seconds;
  text += fmt::format("without {} the step takes {} ms, {} ms {}; ",
                      s.faults.count == 1 ? "its fault" : "its faults", ms(f.sound_step_seconds),
                      ms(std::abs(saved)), saved < 0 ? "more" : "less");
  text +=
      fmt::format("{} of the critical path is on {}", percent(f.critical_seconds / r.step_seconds),
                  rank_name(f.critical_rank, f.critical_stage));
  page.paragraph("Faults         ", text, 3);
}

void write_distribution(Page& page, const Report& r, const Milliseconds& ms) {
  if (!r.routing_samples) return;
  const StepDistribution& d = *r.routing_samples;
  page.line("Routing        {} samples: step p50 {} ms, mean {} ms, p90 {} ms, max {} ms",
            d.samples, ms(d.p50_seconds), ms(d.mean_seconds), ms(d.p90_seconds), ms(d.max_seconds));
}

void write_memory(Page& page, const MemoryReport& m) {
  const std::pair<std::string_view, double> classes[] = {
      {"parameters", m.sizes.parameters}, {"gradients", m.sizes.gradients},
      {"optimizer", m.sizes.optimizer},   {"activations", m.sizes.activations},
      {"logits", m.sizes.logits},         {"buffers", m.sizes.buffers}};
  std::vector<std::string> parts;
  for (const auto& [what, bytes] : classes)
    if (bytes > 0) parts.push_back(fmt::format("{} {:.1f} GiB", what, bytes / gib));
  parts.push_back(fmt::format("on rank {}", m.rank));
  page.list("Peak memory    ", parts, 2);
}

void write_groups(Page& page, const Scenario& s, const Report& r) {
  const Mesh mesh(s.parallel);
  std::vector<std::string> inside, parts;
  for (const GroupKind kind : {GroupKind::tp, GroupKind::cp, GroupKind::dp, GroupKind::pp}) {
    if (mesh.group_size(kind) < 2) continue;
    std::string label = name(kind);
    std::transform(label.begin(), label.end(), label.begin(),
                   [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c); });
    const auto crossing =
        std::find_if(r.straddling.begin(), r.straddling.end(),
                     [&](const Straddling& x) { return x.kind == kind && x.groups > 0; });
    if (crossing == r.straddling.end()) {
      inside.push_back(label);
    } else {
      parts.push_back(fmt::format("each {} group spans {} domains", label, crossing->domains));
    }
  }
  if (!inside.empty())
    parts.insert(parts.begin(), fmt::format("{} inside NVLink domains of {} GPUs",
                                            fmt::join(inside, " "), s.cluster.nvlink_domain));
  if (s.parallel.cp > 1 && s.parallel.dp > 1)
    parts.push_back(
        fmt::format("gradients reduced over DP x CP = {} ranks", s.parallel.cp * s.parallel.dp));
  if (!parts.empty()) page.list("Groups         ", parts, 3);
}

/// As wide as the page's other headings.
std::string_view heading(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::silent:
      return "Changed        ";
    case Finding::Kind::error:
      return "Refused        ";
    case Finding::Kind::unit:
      return "Unit           ";
    case Finding::Kind::advice:
      return "Advice         ";
  }
  return "";
}

void write_findings(Page& page, const Scenario& s) {
  constexpr size_t max_findings = 3;
  if (!s.findings.empty()) page.blank();
  // Errors and silent changes before advice: they are what the user did not ask for.
  std::vector<const Finding*> order;
  for (const Finding& f : s.findings) order.push_back(&f);
  const auto rank = [](const Finding* f) {
    constexpr std::array<int, 4> ranks{1, 0, 2, 3};
    return ranks[static_cast<size_t>(f->kind)];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Finding* a, const Finding* b) { return rank(a) < rank(b); });
  for (size_t i = 0; i < order.size() && i < max_findings; ++i) {
    const Finding& f = *order[i];
    std::string what = f.key.empty() ? f.id : f.key;
    if (!f.requested.empty()) what += ' ' + f.requested;
    if (!f.effective.empty() && f.effective != f.requested) what += " -> " + f.effective;
    page.paragraph(heading(f.kind), what + ": " + f.reason, 3);
  }
  if (order.size() > max_findings)
    page.line("               and {} more; --json lists all", order.size() - max_findings);
  if (!s.not_modelled.empty()) page.list("Not modelled   ", s.not_modelled, 1);
}

}  // namespace

std::string report_text(const Scenario& scenario, const Report& report) {
  const Milliseconds ms(report.step_seconds);
  Page page(page_width);
  write_title(page, scenario, report);
  page.blank();
  write_headline(page, scenario, report);
  page.blank();
  write_ledger(page, report, ms);
  write_communication(page, report, ms);
  write_stages(page, report, ms);
  page.blank();
  write_path(page, report, ms);
  write_contention(page, report, ms);
  write_faults(page, scenario, report, ms);
  write_distribution(page, report, ms);
  if (report.memory) write_memory(page, *report.memory);
  if (!scenario.costs) write_groups(page, scenario, report);
  write_findings(page, scenario);
  return page.text();
}

}  // namespace stepsim
