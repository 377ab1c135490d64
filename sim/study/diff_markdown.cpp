#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/study/diff_text.h"

namespace stepsim {
namespace {

/// Nothing that Markdown or a terminal would act on gets through.
std::string cell(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~' || c == '|' || c == '`' || c == '<' || c == '>') c = c == '>' ? c : ' ';
  return text;
}

}  // namespace

std::string diff_markdown(const Diff& d) {
  const double a = d.a.report.step_seconds;
  std::string text = fmt::format("**Step time {} -> {}: {} ({:+.2f} %)**\n", diff_words::step(a),
                                 diff_words::step(d.b.report.step_seconds),
                                 diff_words::delta(d.delta_seconds, a), d.relative() * 100);
  const std::string fit = diff_words::memory(d);
  if (!fit.empty()) text += fmt::format("\nMemory: {}\n", fit);
  for (const std::string& line : diff_words::headlines(d))
    text += fmt::format("\n> **{}**\n", cell(line));
  if (d.requested.empty()) return text + "\nNothing differs.\n";
  if (!d.by_change.empty()) {
    text += "\n| change | step | share | also in effect |\n|---|---:|---:|---|\n";
    for (const ChangeShare& share : d.by_change) {
      std::string also;
      const std::vector<std::string> more = diff_words::consequences(d, share);
      for (size_t i = 0; i < more.size() && i < 6; ++i) also += (i > 0 ? ", " : "") + more[i];
      if (more.size() > 6) also += fmt::format(" and {} more", more.size() - 6);
      text += fmt::format("| `{}` | {} | {:.1f} % | {} |\n", cell(diff_words::change(d, share)),
                          diff_words::delta(share.delta_seconds, a),
                          d.delta_seconds != 0 ? share.delta_seconds / d.delta_seconds * 100 : 0,
                          cell(also));
    }
    text += fmt::format("\n{}\n", diff_words::method(d));
  }
  text += "\n| cause (mean rank) | A | B | difference |\n|---|---:|---:|---:|\n";
  std::vector<CauseRow> rows = d.by_cause;
  std::stable_sort(rows.begin(), rows.end(), [](const CauseRow& x, const CauseRow& y) {
    return std::abs(x.delta()) > std::abs(y.delta());
  });
  for (const CauseRow& row : rows)
    if (std::abs(row.delta()) > 5e-4 * std::abs(d.delta_seconds))
      text += fmt::format("| {} | {:.2f} ms | {:.2f} ms | {} |\n", diff_words::cause(row.name),
                          row.from_seconds * 1e3, row.to_seconds * 1e3,
                          diff_words::delta(row.delta(), a));
  return text;
}

}  // namespace stepsim
