// A sweep as a picture: SVG, readable on its own.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/study/svg.h"
#include "sim/study/sweep.h"

namespace stepsim {
namespace {

std::string tick(const Point& point) {
  const std::string text = values_text(point);
  return text.size() > 18 ? text.substr(0, 16) + ".." : text;
}

/// The rows of one place in the picture, boiled down to the best of them.
struct Place {
  const SweepRow* row = nullptr;  ///< the best that runs and fits, else any
  double value = 0;
};

double value_of(const Sweep& sweep, const SweepRow& row) {
  return sweep.aim == SweepAim::step ? row.figures.step_seconds
                                     : row.figures.tokens_per_second_per_gpu.value_or(0);
}

std::string number_text(const Sweep& sweep, double value) {
  if (sweep.aim == SweepAim::tokens) return fmt::format("{:.0f}", value);
  return value < 1 ? fmt::format("{:.1f} ms", value * 1e3) : fmt::format("{:.3f} s", value);
}

std::string why_not(const SweepRow& row) {
  if (!row.done) return "not run";
  if (row.outcome.failed()) return row.outcome.failure;
  return row.figures.fits ? "" : "does not fit";
}

/// A larger step is worse, more tokens are better.
bool better_value(const Sweep& sweep, double a, double b) {
  return sweep.aim == SweepAim::step ? a < b : a > b;
}

/// Rows by their places on the first one or two axes; later axes are searched for the best.
std::vector<Place> places(const Sweep& sweep, size_t shown) {
  size_t below = 1;
  for (size_t a = shown; a < sweep.axes.size(); ++a) below *= sweep.axes[a].points.size();
  std::vector<Place> result(sweep.rows.size() / below);
  for (size_t i = 0; i < sweep.rows.size(); ++i) {
    const SweepRow& row = sweep.rows[i];
    Place& place = result[i / below];
    const double value = value_of(sweep, row);
    const bool first = place.row == nullptr || !place.row->feasible();
    if (row.feasible() ? first || better_value(sweep, value, place.value) : place.row == nullptr)
      place = {&row, value};
  }
  return result;
}

std::string head(int width, int height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width, height);
}

std::string label(double x, double y, const std::string& text, const char* anchor = "middle",
                  const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, svg_text(text));
}

std::string title(const Sweep& sweep, size_t shown) {
  std::string text = sweep.aim == SweepAim::step ? "Step time" : "Tokens/s/GPU";
  text += " of " + sweep.file;
  if (sweep.axes.size() > shown) {
    text += ", the best over";
    for (size_t a = shown; a < sweep.axes.size(); ++a)
      text += (a > shown ? ", " : " ") + axis_text(sweep.axes[a]);
  }
  return text;
}

std::string line_chart(const Sweep& sweep, const std::vector<Place>& points) {
  constexpr int width = 760, height = 420, left = 90, right = 20, top = 50, bottom = 70;
  double most = 0;
  for (const Place& p : points)
    if (p.row->feasible()) most = std::max(most, p.value);
  if (most <= 0) most = 1;
  const double step = (width - left - right) / static_cast<double>(points.size());
  const auto x = [&](size_t i) { return left + step * (static_cast<double>(i) + 0.5); };
  const auto y = [&](double value) {
    return height - bottom - (height - bottom - top) * value / most;
  };
  std::string out = head(width, height) + label(left, 24, title(sweep, 1), "start");
  for (int t = 0; t <= 4; ++t) {
    const double value = most * t / 4;
    out += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
                       left, width - right, y(value), y(value));
    out += label(left - 8, y(value) + 4, number_text(sweep, value), "end");
  }
  std::string path;
  bool drawing = false;
  // Labels that would overlap are left out, evenly.
  const size_t every = 1 + static_cast<size_t>(40 / step);
  for (size_t i = 0; i < points.size(); ++i) {
    if (i % every == 0) out += label(x(i), height - bottom + 20, tick(sweep.axes[0].points[i]));
    const Place& p = points[i];
    if (!p.row->feasible()) {
      out += fmt::format("<g><title>{}</title>", svg_text(why_not(*p.row))) +
             label(x(i), height - bottom - 4, "x", "middle", " fill=\"#b00\"") + "</g>\n";
      drawing = false;
      continue;
    }
    path += fmt::format("{}{:.1f},{:.1f} ", drawing ? "L" : "M", x(i), y(p.value));
    drawing = true;
    const bool best = sweep.best != Sweep::none && p.row == &sweep.rows[sweep.best];
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"><title>{}: {}</title></circle>\n",
        x(i), y(p.value), best ? 6 : 4, best ? "#d55e00" : "#0072b2",
        svg_text(point_text(p.row->point)), number_text(sweep, p.value));
  }
  out += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#0072b2\"/>\n", path);
  out += label((left + width - right) / 2.0, height - 18, axis_text(sweep.axes[0]));
  return out + "</svg>\n";
}

/// From dark (good) to light: value at `share` of the way to the worst.
std::string shade(double share) {
  const auto mix = [&](int good, int bad) {
    return static_cast<int>(std::lround(good + (bad - good) * share));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(0x00, 0xf4), mix(0x72, 0xf6), mix(0xb2, 0xf8));
}

std::string heat_map(const Sweep& sweep, const std::vector<Place>& points) {
  const size_t rows = sweep.axes[0].points.size(), columns = sweep.axes[1].points.size();
  constexpr int cell_width = 84, cell_height = 32, left = 150, top = 90;
  const int width = left + cell_width * static_cast<int>(columns) + 20;
  const int height = top + cell_height * static_cast<int>(rows) + 20;
  double low = INFINITY, high = 0;
  for (const Place& p : points)
    if (p.row->feasible()) low = std::min(low, p.value), high = std::max(high, p.value);
  std::string out = head(std::max(width, 640), height) + label(10, 24, title(sweep, 2), "start");
  out +=
      label(left, 50, axis_text(sweep.axes[1]) + " across, " + axis_text(sweep.axes[0]) + " down",
            "start");
  for (size_t c = 0; c < columns; ++c)
    out += label(left + cell_width * (static_cast<double>(c) + 0.5), top - 10,
                 tick(sweep.axes[1].points[c]));
  for (size_t r = 0; r < rows; ++r) {
    const int y = top + cell_height * static_cast<int>(r);
    out += label(left - 8, y + 20, tick(sweep.axes[0].points[r]), "end");
    for (size_t c = 0; c < columns; ++c) {
      const Place& p = points[r * columns + c];
      const int x = left + cell_width * static_cast<int>(c);
      const bool runs = p.row->feasible();
      double share = runs && high > low ? (p.value - low) / (high - low) : 0;
      if (sweep.aim == SweepAim::tokens) share = 1 - share;
      const bool best = sweep.best != Sweep::none && p.row == &sweep.rows[sweep.best];
      out += fmt::format(
          "<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" "
          "stroke=\"{}\" stroke-width=\"{}\"/>",
          svg_text(point_text(p.row->point) + (runs ? "" : ": " + why_not(*p.row))), x, y,
          cell_width - 2, cell_height - 2, runs ? shade(share) : "#ddd", best ? "#d55e00" : "white",
          best ? 3 : 1);
      out += label(x + cell_width / 2.0 - 1, y + 20, runs ? number_text(sweep, p.value) : "x",
                   "middle", runs && share < 0.5 ? " fill=\"white\"" : " fill=\"#333\"");
      out += "</g>\n";
    }
  }
  return out + "</svg>\n";
}

}  // namespace

std::string sweep_svg(const Sweep& sweep) {
  if (sweep.axes.size() == 1) return line_chart(sweep, places(sweep, 1));
  return heat_map(sweep, places(sweep, 2));
}

}  // namespace stepsim
