#include "sim/study/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/study/svg.h"

namespace stepsim {
namespace {

constexpr double left = 70, top = 50, side = 560, width = 900, height = 690;
constexpr double band = 0.1;
/// Kinds of rows with a look of their own; the last one is what all others share.
constexpr size_t most_kinds = 8;

/// Colours that the colour-blind tell apart (Okabe and Ito 2008), each with its own shape.
struct Look {
  std::string_view colour, shape;  ///< `shape`: a path around 0, 0
};
constexpr std::array<Look, most_kinds> looks{{
    {"#0072B2", "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0-4 0Z"},
    {"#D55E00", "M-4-4H4V4H-4Z"},
    {"#009E73", "M0-5L5 4H-5Z"},
    {"#CC79A7", "M0-5.5L5.5 0L0 5.5L-5.5 0Z"},
    {"#E69F00", "M0 5L5-4H-5Z"},
    {"#56B4E9", "M-1.5-5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5V-1.5H-1.5Z"},
    {"#B8A800", "M-5-2.5L-2.5-5L0-2.5L2.5-5L5-2.5L2.5 0L5 2.5L2.5 5L0 2.5L-2.5 5L-5 2.5L-2.5 0Z"},
    {"#000000", "M-3 0A3 3 0 1 0 3 0A3 3 0 1 0-3 0Z"},
}};

/// "h100 fp8-cs" of "a model|h100|fp8-cs|a source": what a machine does in one type.
std::string kind_of(const std::string& group) {
  std::vector<std::string> parts{""};
  for (const char c : group)
    if (c == '|')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts.size() < 3 ? group : parts[1] + " " + parts[2];
}

/// One axis: decades are lines, 2 and 5 between them ticks where there is room.
struct Scale {
  double low = 1, high = 10;  ///< seconds
  double at(double seconds) const { return std::log(seconds / low) / std::log(high / low) * side; }
};

Scale scale_of(const std::vector<const MeasuredStep*>& rows) {
  Scale scale{1e300, 0};
  for (const MeasuredStep* row : rows) {
    scale.low = std::min({scale.low, row->measured_seconds, row->predicted_seconds});
    scale.high = std::max({scale.high, row->measured_seconds, row->predicted_seconds});
  }
  scale.low /= 1.3;
  scale.high *= 1.3;
  return scale;
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.4g} ms", seconds * 1e3) : fmt::format("{:.4g} s", seconds);
}

std::string axes(const Scale& scale) {
  std::string svg;
  for (double decade = std::pow(10, std::floor(std::log10(scale.low))); decade < scale.high;
       decade *= 10)
    for (const double step : {1.0, 2.0, 5.0}) {
      const double tick = decade * step;
      if (tick < scale.low || tick > scale.high) continue;
      const double at = scale.at(tick);
      svg += fmt::format(
          "<path d='M{0:.1f} {1}V{2}M{3} {4:.1f}H{5}' stroke='#ddd'/>"
          "<text x='{0:.1f}' y='{6}' text-anchor='middle'>{8}</text>"
          "<text x='{7}' y='{9:.1f}' text-anchor='end'>{8}</text>\n",
          left + at, top, top + side, left, top + side - at, left + side, top + side + 18, left - 6,
          seconds_text(tick), top + side - at + 4);
    }
  const auto line = [&](double factor, const char* style) {
    // Both ends are cut where they leave the square.
    const double from = std::max(scale.low, scale.low / factor);
    const double to = std::min(scale.high, scale.high / factor);
    return fmt::format("<path d='M{:.1f} {:.1f}L{:.1f} {:.1f}' {}/>\n", left + scale.at(from),
                       top + side - scale.at(from * factor), left + scale.at(to),
                       top + side - scale.at(to * factor), style);
  };
  svg += line(1, "stroke='#555'");
  svg += line(1 + band, "stroke='#999' stroke-dasharray='4 3'");
  svg += line(1 - band, "stroke='#999' stroke-dasharray='4 3'");
  return svg;
}

}  // namespace

std::string scatter_svg(const std::vector<MeasuredStep>& rows, const std::string& title) {
  std::vector<const MeasuredStep*> shown;
  std::map<std::string, int> counts;
  int inside = 0;
  for (const MeasuredStep& row : rows) {
    if (!row.failure.empty() || row.measured_seconds <= 0 || row.predicted_seconds <= 0) continue;
    shown.push_back(&row);
    ++counts[kind_of(row.group)];
    inside += std::abs(row.error()) <= band;
  }
  std::vector<std::pair<std::string, int>> kinds(counts.begin(), counts.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  const auto look_of = [&](const std::string& kind) {
    for (size_t k = 0; k + 1 < most_kinds && k < kinds.size(); ++k)
      if (kinds[k].first == kind) return k;
    return kinds.size() == most_kinds ? most_kinds - 1 : std::min(kinds.size(), most_kinds) - 1;
  };
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='{0}' height='{1}' fill='#fff'/>\n"
      "<text x='{2}' y='24' font-size='16'>{3}</text>\n"
      "<text x='{2}' y='42' fill='#555'>{4} steps, {5} within 10 % (dashed)</text>\n",
      width, height, left, svg_text(title), shown.size(), inside);
  if (shown.empty()) return svg + "</svg>\n";
  const Scale scale = scale_of(shown);
  svg += axes(scale);
  svg += fmt::format(
      "<rect x='{0}' y='{1}' width='{2}' height='{2}' fill='none' stroke='#333'/>\n"
      "<text x='{3}' y='{4}' text-anchor='middle'>measured step time</text>\n"
      "<text transform='translate(14 {5}) rotate(-90)' text-anchor='middle'>predicted step "
      "time</text>\n",
      left, top, side, left + side / 2, top + side + 38, top + side / 2);
  for (const MeasuredStep* row : shown) {
    const Look& look = looks.at(look_of(kind_of(row->group)));
    svg += fmt::format(
        "<path transform='translate({:.1f} {:.1f})' d='{}' fill='{}' fill-opacity='.7' "
        "stroke='#fff' stroke-width='.5'><title>{} ({}): measured {}, predicted {}, {:+.1f} "
        "%</title></path>\n",
        left + scale.at(row->measured_seconds), top + side - scale.at(row->predicted_seconds),
        look.shape, look.colour, svg_text(row->id), svg_text(row->group),
        seconds_text(row->measured_seconds), seconds_text(row->predicted_seconds),
        100 * row->error());
  }
  double y = top + 12;
  for (size_t k = 0; k < std::min(kinds.size(), most_kinds); ++k, y += 22) {
    const bool rest = k + 1 == most_kinds && kinds.size() > most_kinds;
    int count = kinds[k].second;
    for (size_t other = k + 1; rest && other < kinds.size(); ++other) count += kinds[other].second;
    svg += fmt::format(
        "<path transform='translate({:.1f} {:.1f})' d='{}' fill='{}'/><text x='{:.1f}' "
        "y='{:.1f}'>{} ({})</text>\n",
        left + side + 24, y, looks.at(k).shape, looks.at(k).colour, left + side + 36, y + 4,
        rest ? std::string("others") : svg_text(kinds[k].first), count);
  }
  return svg + "</svg>\n";
}

}  // namespace stepsim
