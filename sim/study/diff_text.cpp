#include "sim/study/diff_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/report/page.h"

namespace stepsim {
namespace {

namespace words = diff_words;

double share_of(const Diff& d, double seconds) {
  return d.delta_seconds != 0 ? seconds / d.delta_seconds : 0;
}

void write_sides(Page& page, const Diff& d) {
  const double a = d.a.report.step_seconds, b = d.b.report.step_seconds;
  if (d.a.scenario.file == d.b.scenario.file) {
    page.line("A  {}", d.a.scenario.file);
    page.line("B  the same with {} key{} changed", d.requested.size(),
              d.requested.size() == 1 ? "" : "s");
  } else {
    page.line("A  {}", d.a.scenario.file);
    page.line("B  {}", d.b.scenario.file);
  }
  page.line("Step time      {} -> {}: {}, {:+.2f} %{}", words::step(a), words::step(b),
            words::delta(d.delta_seconds, a), d.relative() * 100,
            d.delta_seconds > 0   ? ", slower"
            : d.delta_seconds < 0 ? ", faster"
                                  : "");
  const std::string fit = words::memory(d);
  if (!fit.empty()) page.line("Memory         {}", fit);
}

void write_changes(Page& page, const Diff& d) {
  if (d.by_change.empty()) return;
  page.blank();
  constexpr size_t most = 10;
  const size_t width = d.attribution.errors.empty() ? 70 : 60;  // room for the errors
  page.line("{:<{}}{:>14}{:>10}", "By change", width + 2, "step", "share");
  double rest = 0;
  size_t rows = 0, others = 0;
  std::vector<std::string> idle;
  for (const ChangeShare& share : d.by_change) {
    if (share.delta_seconds == 0 && share.error_seconds == 0) {
      for (const size_t c : share.changes) idle.push_back(d.requested[c].key);
      continue;
    }
    if (rows++ >= most) {
      rest += share.delta_seconds;
      ++others;
      continue;
    }
    std::string text = words::change(d, share);
    const std::string seconds = words::delta(share.delta_seconds, d.a.report.step_seconds);
    const std::string part = fmt::format("{:.1f} %", share_of(d, share.delta_seconds) * 100);
    if (text.size() > width && share.changes.size() > 1) {
      page.list("  ", {words::change(d, ChangeShare{{share.changes[0]}, 0, 0, {}}) + ", with:"}, 1);
      std::vector<std::string> others_of_it;
      for (size_t c = 1; c < share.changes.size(); ++c)
        others_of_it.push_back(words::change(d, ChangeShare{{share.changes[c]}, 0, 0, {}}));
      page.list("    ", others_of_it, 4);
      text = "    (only together)";
    }
    if (text.size() > width) text = text.substr(0, width - 3) + "...";
    page.line("  {:<{}}{:>14}{:>10}  {}", text, width, seconds, part,
              share.error_seconds > 0 ? fmt::format("+-{:.1f}", share.error_seconds * 1e3) : "");
    const std::vector<std::string> more = words::consequences(d, share);
    if (!more.empty()) page.list("      in effect: ", more, d.by_change.size() > 5 ? 1 : 3);
  }
  if (others > 0)
    page.line("  {:<{}}{:>14}", fmt::format("{} more changes", others), width,
              words::delta(rest, d.a.report.step_seconds));
  if (!idle.empty()) page.list("  without effect on the step: ", idle, 2);
  for (size_t i = 0; i < d.pairs.size() && i < 3; ++i) {
    const PairShare& p = d.pairs[i];
    page.paragraph("  together: ",
                   fmt::format("{} from {} and {} beyond what each does alone; shared between them",
                               words::delta(p.seconds, d.a.report.step_seconds),
                               d.requested[d.by_change[p.first].changes[0]].key,
                               d.requested[d.by_change[p.second].changes[0]].key),
                   2);
  }
  page.paragraph("  ", words::method(d), 2);
}

/// Largest first, without what rounds to nothing.
std::vector<const CauseRow*> moved(const std::vector<CauseRow>& rows, double least) {
  std::vector<const CauseRow*> found;
  for (const CauseRow& row : rows)
    if (std::abs(row.delta()) > least) found.push_back(&row);
  std::stable_sort(found.begin(), found.end(), [](const CauseRow* x, const CauseRow* y) {
    return std::abs(x->delta()) > std::abs(y->delta());
  });
  return found;
}

void write_causes(Page& page, const Diff& d) {
  const double step_seconds = d.a.report.step_seconds;
  const double least = std::max(std::abs(d.delta_seconds) * 5e-4, step_seconds * 1e-9);
  const std::vector<const CauseRow*> rows = moved(d.by_cause, least);
  if (rows.empty()) return;
  const int decimals = step_seconds >= 1 ? 1 : step_seconds >= 0.01 ? 2 : 4;
  const auto ms = [&](double seconds) { return fmt::format("{:.{}f}", seconds * 1e3, decimals); };
  page.blank();
  page.line("{:<38}{:>13}{:>13}{:>14}{:>10}", "By cause, mean rank", "A ms", "B ms", "difference",
            "share");
  for (const CauseRow* row : rows) {
    page.line("  {:<36}{:>13}{:>13}{:>14}{:>8.1f} %", words::cause(row->name),
              ms(row->from_seconds), ms(row->to_seconds), words::delta(row->delta(), step_seconds),
              share_of(d, row->delta()) * 100);
    const std::vector<const CauseRow*> parts = moved(row->parts, 20 * least);
    for (size_t i = 0; i < parts.size() && i < 4; ++i)
      page.line("    {:<34}{:>13}{:>13}{:>14}", parts[i]->name, ms(parts[i]->from_seconds),
                ms(parts[i]->to_seconds), words::delta(parts[i]->delta(), step_seconds));
  }
  std::vector<std::string> path;
  for (const CauseRow* row : moved(d.critical_path, least))
    path.push_back(fmt::format("{} {}", row->name, words::delta(row->delta(), step_seconds)));
  if (!path.empty()) {
    page.blank();
    page.list("Critical path  ", path, 2);
  }
}

void write_memory_classes(Page& page, const Diff& d) {
  if (!d.a.report.memory || !d.b.report.memory) return;
  const DeviceMemory &a = d.a.report.memory->sizes, &b = d.b.report.memory->sizes;
  const std::pair<std::string_view, double> classes[] = {
      {"parameters", b.parameters - a.parameters},
      {"gradients", b.gradients - a.gradients},
      {"optimizer", b.optimizer - a.optimizer},
      {"activations", b.activations - a.activations},
      {"logits", b.logits - a.logits},
      {"buffers", b.buffers - a.buffers},
      {"reserve", b.reserve - a.reserve}};
  std::vector<std::string> parts;
  for (const auto& [what, bytes] : classes)
    if (std::abs(bytes) > 0.05 * gib)
      parts.push_back(fmt::format("{} {:+.1f} GiB", what, bytes / gib));
  if (!parts.empty()) page.list("Memory         ", parts, 2);
}

/// Changes of which nothing here knows what they do.
void write_unmodelled(Page& page, const Diff& d) {
  std::vector<bool> shown(d.requested.size(), false);
  for (const ChangeShare& share : d.by_change)
    for (const size_t c : share.changes) shown[c] = true;
  std::vector<std::string> rest;
  for (size_t c = 0; c < d.requested.size(); ++c)
    if (!shown[c]) rest.push_back(d.requested[c].key);
  if (!rest.empty()) page.list("Not modelled   ", rest, 2);
}

}  // namespace

std::string diff_text(const Diff& d) {
  Page page(page_width);
  const std::vector<std::string> heads = words::headlines(d);
  for (size_t i = 0; i < heads.size() && i < 4; ++i) page.paragraph("", heads[i], 3);
  if (!d.gates.empty()) {
    const Finding& f = d.gates.front().finding;
    page.paragraph("  ",
                   fmt::format("{} is {} in both; {} in {}: {}", f.key,
                               f.requested == "null" ? "not set" : f.requested, f.effective,
                               d.gates.front().lost ? "B" : "A", f.reason),
                   3);
  }
  if (heads.size() > 4) page.line("and {} more settings; --json lists all", heads.size() - 4);
  if (!heads.empty()) page.blank();
  write_sides(page, d);
  if (d.requested.empty()) {
    page.blank();
    page.line("Nothing differs.");
    return page.text();
  }
  write_changes(page, d);
  write_causes(page, d);
  write_memory_classes(page, d);
  write_unmodelled(page, d);
  return page.text();
}

}  // namespace stepsim
