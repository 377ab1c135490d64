// Steps over samples of how tokens spread over experts.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "sim/report/json.h"
#include "sim/report/text.h"
#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;
using nlohmann::json;

namespace {

/// Mixtral 8x7B, two experts on each of four ranks.
json mixtral(const json& routing) {
  json s = scenario_json("mixtral-8x7b", "dgx-h100", {.dp = 4, .microbatches = 1, .layers = 2});
  s["model"]["expert_model_parallel_size"] = 4;
  s["model"]["moe_token_dispatcher_type"] = "alltoall";
  s["costs"]["moe_routing"] = routing;
  return s;
}

/// A folder with one file, gone afterwards.
class Histogram {
 public:
  explicit Histogram(const std::string& rows)
      : path_(std::filesystem::temp_directory_path() / "stepsim_routing_law.csv") {
    std::ofstream(path_) << rows;
  }
  Histogram(const Histogram&) = delete;
  Histogram& operator=(const Histogram&) = delete;
  ~Histogram() { std::filesystem::remove(path_); }
  json routing() const { return {{"histogram", path_.string()}}; }

 private:
  std::filesystem::path path_;
};

Report with_rows(const std::string& rows) {
  const Histogram file(rows);
  return step_of(read(mixtral(file.routing()))).report;
}

}  // namespace

// Nearest rank: of 4 the 2nd and the 4th, of 10 the 5th and the 9th.
TEST_CASE("a distribution of steps: median, mean, 90th percentile, maximum") {
  const StepDistribution four = distribution_of({4, 1, 3, 2});
  CHECK(four.samples == 4);
  CHECK(four.p50_seconds == 2);
  CHECK(four.mean_seconds == 2.5);
  CHECK(four.p90_seconds == 4);
  CHECK(four.max_seconds == 4);
  const StepDistribution ten = distribution_of({10, 9, 8, 7, 6, 5, 4, 3, 2, 1});
  CHECK(ten.p50_seconds == 5);
  CHECK(ten.p90_seconds == 9);
  const StepDistribution one = distribution_of({0.1});
  CHECK(one.p50_seconds == 0.1);
  CHECK(one.mean_seconds == 0.1);
  CHECK(one.max_seconds == 0.1);
}

TEST_CASE("law: one sample is the step, to the bit; each row of a histogram is one") {
  const std::string even = "1,1,1,1,1,1,1,1\n", skewed = "9,5,4,4,3,3,2,2\n",
                    hot = "20,9,1,1,1,1,1,1\n";
  const Report a = with_rows(even), b = with_rows(skewed), c = with_rows(hot);
  CHECK_FALSE(a.routing_samples);
  CHECK(a.step_seconds < b.step_seconds);
  CHECK(b.step_seconds < c.step_seconds);
  const Report all = with_rows(skewed + hot + even);
  REQUIRE(all.routing_samples);
  CHECK(all.routing_samples->samples == 3);
  CHECK(all.routing_samples->p50_seconds == b.step_seconds);
  CHECK(all.routing_samples->p90_seconds == c.step_seconds);
  CHECK(all.routing_samples->max_seconds == c.step_seconds);
  CHECK(all.routing_samples->mean_seconds ==
        doctest::Approx((a.step_seconds + b.step_seconds + c.step_seconds) / 3).epsilon(1e-12));
  // The step itself is that of all rows together: 30, 15, 6, 6, 5, 5, 4, 4.
  CHECK(all.step_seconds == with_rows("30,15,6,6,5,5,4,4\n").step_seconds);
  const Report same = with_rows(skewed + skewed);
  CHECK(same.step_seconds == b.step_seconds);
  CHECK(same.routing_samples->p50_seconds == b.step_seconds);
  CHECK(same.routing_samples->mean_seconds == b.step_seconds);
}

TEST_CASE("law: drawn samples change the distribution, never the step") {
  const json once{{"zipf", 1.0}};
  const Report plain = step_of(read(mixtral(once))).report;
  json many = once;
  many["samples"] = 12;
  const Scenario s = read(mixtral(many));
  const Report drawn = step_of(s).report;
  CHECK(drawn.step_seconds == plain.step_seconds);
  REQUIRE(drawn.routing_samples);
  const StepDistribution& d = *drawn.routing_samples;
  CHECK(d.samples == 12);
  CHECK(d.p50_seconds <= d.p90_seconds);
  CHECK(d.p90_seconds <= d.max_seconds);
  CHECK(d.p50_seconds < d.max_seconds);
  CHECK(d.mean_seconds < d.max_seconds);
  const json out = json::parse(report_json(s, drawn));
  CHECK(out["step_distribution"]["samples"] == 12);
  CHECK(out["step_distribution"]["p90_seconds"] == d.p90_seconds);
  CHECK(json::parse(report_json(s, plain))["step_distribution"].is_null());
  CHECK(report_text(s, drawn).find("12 samples: step p50 ") != std::string::npos);
  // Which rank of one node is hot makes no difference.
  const Report hot =
      step_of(read(mixtral({{"hot_ranks", {{"count", 1}, {"share", 0.5}}}, {"samples", 20}})))
          .report;
  CHECK(relative(hot.routing_samples->max_seconds, hot.step_seconds) < 1e-9);
  CHECK(relative(hot.routing_samples->p50_seconds, hot.step_seconds) < 1e-9);
}
