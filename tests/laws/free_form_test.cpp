// Free-form graphs: transfers contend for the file's own links, and for nothing else.
#include <doctest/doctest.h>

#include "tests/laws/layout.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// Two GPUs on one switch, two on another, one link between the switches: CP pairs cross it twice
/// at once.
Scenario two_switches(double uplink_gigabytes, const Layout& l) {
  Scenario s = read(scenario_json("llama3.2-1b", "ring-of-8", l));
  s.cluster.links.clear();
  const auto link = [&](const std::string& from, const std::string& to, double gigabytes) {
    s.cluster.links.push_back({from, to, {gigabytes * 1e9}, {1e-6}});
  };
  for (int gpu = 0; gpu < 4; ++gpu)
    link("gpu" + std::to_string(gpu), gpu < 2 ? "left" : "right", 50);
  link("left", "right", uplink_gigabytes);
  return s;
}

}  // namespace

TEST_CASE("law: a narrower shared link never speeds a step up, and a wide enough one is not felt") {
  // Ranks 0, 1 left and 2, 3 right: CP pairs (0, 2) and (1, 3) both cross between the switches.
  const Layout l{.tp = 2, .cp = 2, .sequence = 8192};
  const auto seconds = [&](double uplink) { return seconds_of(two_switches(uplink, l)); };
  double before = seconds(25);
  for (double uplink : {50.0, 75.0, 100.0}) {
    const double now = seconds(uplink);
    CHECK(now <= before * (1 + 1e-12));
    before = now;
  }
  // Two flows of at most 50 GB/s each: 100 GB/s is all that can be used.
  CHECK(seconds(100) == doctest::Approx(seconds(1000)).epsilon(1e-12));
  CHECK(seconds(25) > seconds(100));
}

TEST_CASE("law: two groups that use one link at once get half of it each") {
  // DP pairs (0, 2) and (1, 3) reduce at the same time: 50 GB/s between the switches serves both
  // as 25 GB/s would serve each alone.
  const Layout l{.tp = 2, .dp = 2, .microbatches = 1};
  const auto reduction = [&](double uplink, const SimulateOptions& options) {
    const Report report = step_of(two_switches(uplink, l), options).report;
    return report.communication.by_class[static_cast<size_t>(CommClass::dp)]->total_seconds;
  };
  const auto alone = [&](double uplink) { return reduction(uplink, apart); };
  const double together = reduction(50, {});
  CHECK(together == doctest::Approx(alone(25)).epsilon(1e-9));
  CHECK(together > alone(50));
}

TEST_CASE("a link that nobody's route uses changes nothing") {
  const Layout l{.tp = 2, .dp = 2};
  Scenario s = two_switches(50, l);
  const double before = seconds_of(s);
  s.cluster.links.push_back({"left", "attic", {1e9}, {1e-6}});
  CHECK(seconds_of(s) == before);
}
