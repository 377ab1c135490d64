// The picture of predicted against measured.
#include "sim/study/scatter.h"

#include <doctest/doctest.h>

#include <regex>

using namespace stepsim;

namespace {

MeasuredStep step(const std::string& id, const std::string& group, double measured,
                  double predicted) {
  MeasuredStep row;
  row.id = id;
  row.group = group;
  row.measured_seconds = measured;
  row.predicted_seconds = predicted;
  return row;
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

// On logarithmic axes from 1/1.3 to 100 * 1.3 s a point at 10 s, the geometric mean of the ends, is
// in the middle of the square of 560 at (70, 50): x = 350, y = 330.
TEST_CASE("a point lies where its times are") {
  const std::string svg =
      scatter_svg({step("a", "m|h100|bf16|x", 1, 1), step("b", "m|h100|bf16|x", 100, 100),
                   step("c", "m|a100|bf16|x", 10, 10)},
                  "t");
  CHECK(svg.find("translate(350.0 330.0)") != std::string::npos);
  CHECK(svg.find("h100 bf16 (2)") != std::string::npos);
  CHECK(svg.find("a100 bf16 (1)") != std::string::npos);
  CHECK(svg.find("3 steps, 3 within 10 %") != std::string::npos);
  CHECK(count(svg, "<title>") == 3);
}

TEST_CASE("names are escaped, nothing is fetched, what failed is left out") {
  MeasuredStep failed = step("f", "g", 1, 0);
  failed.failure = "no";
  const std::string svg =
      scatter_svg({step("<script>&\"x\"", "a<b|c", 1, 1.2), failed}, "<title> & more");
  CHECK(svg.find("<script>") == std::string::npos);
  CHECK(svg.find("&lt;script&gt;&amp;&quot;x&quot;") != std::string::npos);
  CHECK(svg.find("&lt;title&gt; &amp; more") != std::string::npos);
  CHECK(svg.find("1 steps, 0 within") != std::string::npos);
  CHECK(svg.find("+20.0 %") != std::string::npos);
  CHECK(count(svg, "http") == 1);  // the namespace
  CHECK(count(svg, "href") == 0);
}

TEST_CASE("many kinds share the last look; without rows there is a picture all the same") {
  std::vector<MeasuredStep> rows;
  for (int k = 0; k < 12; ++k)
    rows.push_back(step("r", "m|gpu" + std::to_string(k) + "|t|s", 1 + k, 1 + k));
  CHECK(scatter_svg(rows, "t").find("others (5)") != std::string::npos);
  CHECK(scatter_svg({}, "t").find("</svg>") != std::string::npos);
}
