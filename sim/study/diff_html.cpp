// A difference as one page that needs nothing else: two waterfalls from A's step to B's, each with
// its table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/study/diff_text.h"

namespace stepsim {
namespace {

/// One bar of a waterfall.
struct Fall {
  std::string label;
  double seconds = 0;
};

constexpr const char* page_head = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>stepsim diff</title>
<style>
:root{color-scheme:light dark;--ink:#1a1a1a;--page:#fff;--rule:#bbb;--more:#c2570c;--less:#1463a8;--end:#777}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--page:#16181b;--rule:#555;--more:#f08a3c;--less:#5aa7e8;--end:#999}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:64rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}
svg{width:100%;height:auto}svg text{fill:var(--ink);font-size:13px}
.more{fill:var(--more)}.less{fill:var(--less)}.end{fill:var(--end)}line{stroke:var(--rule)}
table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid var(--rule);padding:.2rem .5rem;text-align:left;overflow-wrap:anywhere}
td.n,th.n{text-align:right;white-space:nowrap}
.warn{border-left:.3rem solid var(--more);padding:.2rem .8rem}
</style></head><body>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c < ' ' || c > '~' ? '?' : c;
  }
  return out;
}

std::string short_label(const std::string& text) {
  constexpr size_t most = 46;
  return text.size() > most ? text.substr(0, most - 3) + "..." : text;
}

/// Bars from A's step over each part to B's, on an axis that holds what moves.
std::string waterfall(const std::vector<Fall>& falls, double from, double to,
                      const std::string& title) {
  double low = std::min(from, to), high = std::max(from, to), at = from;
  for (const Fall& f : falls) {
    at += f.seconds;
    low = std::min(low, at);
    high = std::max(high, at);
  }
  const double span = std::max(high - low, 1e-12);
  // Ends stick out, so that they are seen as bars and not as nothing.
  const double origin = std::max(0.0, low - 0.08 * span);
  constexpr double left = 350, width = 480, row = 24;
  const auto x = [&](double seconds) {
    return left + (seconds - origin) / (high - origin) * width;
  };
  const double height = row * static_cast<double>(falls.size() + 2) + 8;
  std::string svg = fmt::format("<svg viewBox=\"0 0 960 {:.0f}\" role=\"img\" aria-label=\"{}\">\n",
                                height, escaped(title));
  double y = 4;
  const auto bar = [&](const std::string& label, double begin, double end, const char* kind,
                       const std::string& value) {
    const double first = std::min(x(begin), x(end)), last = std::max(x(begin), x(end));
    svg += fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text><rect class=\"{}\" "
        "x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\"><title>{}: {}</title></rect>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        left - 8, y + 15, escaped(short_label(label)), kind, first, y, std::max(last - first, 1.0),
        row - 6, escaped(label), escaped(value), last + 6, y + 15, escaped(value));
    y += row;
    if (y + row < height)
      svg += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n",
                         x(end), y - 6, y);
  };
  bar("A", origin, from, "end", diff_words::step(from));
  at = from;
  for (const Fall& f : falls) {
    bar(f.label, at, at + f.seconds, f.seconds > 0 ? "more" : "less",
        diff_words::delta(f.seconds, from));
    at += f.seconds;
  }
  bar("B", origin, to, "end", diff_words::step(to));
  return svg + "</svg>\n";
}

/// The largest parts, and all others as one.
std::vector<Fall> largest(std::vector<Fall> all, size_t most) {
  std::erase_if(all, [](const Fall& f) { return f.seconds == 0; });
  std::stable_sort(all.begin(), all.end(), [](const Fall& x, const Fall& y) {
    return std::abs(x.seconds) > std::abs(y.seconds);
  });
  if (all.size() <= most) return all;
  Fall rest{fmt::format("{} more", all.size() - most), 0};
  for (size_t i = most; i < all.size(); ++i) rest.seconds += all[i].seconds;
  all.resize(most);
  all.push_back(rest);
  return all;
}

std::string table_of(const Diff& d) {
  const double a = d.a.report.step_seconds;
  std::string text =
      "<table><thead><tr><th>Change</th><th class=\"n\">Step</th><th>Also in effect</th></tr>"
      "</thead><tbody>\n";
  for (const ChangeShare& share : d.by_change) {
    std::string also;
    for (const std::string& one : diff_words::consequences(d, share))
      also += (also.empty() ? "" : ", ") + one;
    text += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
                        escaped(diff_words::change(d, share)),
                        diff_words::delta(share.delta_seconds, a), escaped(also));
  }
  return text + "</tbody></table>\n";
}

std::string cause_table(const Diff& d) {
  std::string text =
      "<table><thead><tr><th>Cause, mean rank</th><th class=\"n\">A</th><th class=\"n\">B</th>"
      "<th class=\"n\">Difference</th></tr></thead><tbody>\n";
  const auto add = [&](const std::string& name, const CauseRow& row) {
    if (row.from_seconds == 0 && row.to_seconds == 0) return;
    text += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{:.2f} ms</td><td class=\"n\">{:.2f} ms</td>"
        "<td class=\"n\">{}</td></tr>\n",
        escaped(name), row.from_seconds * 1e3, row.to_seconds * 1e3,
        diff_words::delta(row.delta(), d.a.report.step_seconds));
  };
  for (const CauseRow& row : d.by_cause) {
    add(diff_words::cause(row.name), row);
    for (const CauseRow& part : row.parts) add("- " + part.name, part);
  }
  return text + "</tbody></table>\n";
}

}  // namespace

std::string diff_html(const Diff& d) {
  const double a = d.a.report.step_seconds, b = d.b.report.step_seconds;
  std::string text = page_head;
  text +=
      fmt::format("<h1>Step time {} to {}: {} ({:+.2f} %)</h1>\n", diff_words::step(a),
                  diff_words::step(b), diff_words::delta(d.delta_seconds, a), d.relative() * 100);
  text +=
      fmt::format("<p>A {}<br>B {}</p>\n", escaped(d.a.scenario.file), escaped(d.b.scenario.file));
  if (const std::string fit = diff_words::memory(d); !fit.empty())
    text += fmt::format("<p>Memory {}</p>\n", escaped(fit));
  for (const std::string& line : diff_words::headlines(d))
    text += fmt::format("<p class=\"warn\">{}</p>\n", escaped(line));
  if (d.requested.empty()) return text + "<p>Nothing differs.</p></body></html>\n";
  std::vector<Fall> changes, through;
  for (const ChangeShare& share : d.by_change)
    changes.push_back({diff_words::change(d, share), share.delta_seconds});
  for (const CauseRow& row : d.by_cause)
    through.push_back({diff_words::cause(row.name), row.delta()});
  text += "<h2>By change</h2>\n" +
          waterfall(largest(std::move(changes), 12), a, b, "Step time by change") + table_of(d);
  text += fmt::format("<p>{}</p>\n", escaped(diff_words::method(d)));
  text += "<h2>By cause</h2>\n" +
          waterfall(largest(std::move(through), 14), a, b, "Step time by cause") + cause_table(d);
  return text + "</body></html>\n";
}

}  // namespace stepsim
