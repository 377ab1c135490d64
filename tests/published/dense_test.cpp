// Every dense published row whose features exist here: predicted against measured, by model and
// GPU.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "tests/published/rows.h"

using namespace stepsim;
using namespace stepsim::test;

TEST_CASE(
    "dense published step times: newest rows within 8% on average and 16% at the 90th percentile") {
  const std::vector<PublishedRow> rows =
      simulate_rows("tests/published/dense.jsonl", quick() ? 12 : 0);
  if (quick()) return;  // a sample for the sanitizers; the statistics need every row
  REQUIRE(rows.size() >= 125);
  std::map<std::string, std::vector<PublishedRow>> groups;
  std::vector<PublishedRow> scored;
  for (const PublishedRow& r : rows) {
    groups[r.group].push_back(r);
    if (r.scored) scored.push_back(r);
  }
  for (const auto& [group, members] : groups) {
    fmt::print("{} ({} rows)\n", group, members.size());
    for (const PublishedRow& r : members)
      fmt::print("  {:<20} {} measured {:8.3f} s  predicted {:8.3f} s  {:+6.1f} %\n", r.id,
                 r.scored ? ' ' : '-', r.measured_seconds, r.predicted_seconds, r.error() * 100);
  }
  const ErrorStatistics s = statistics(scored);
  fmt::print(
      "scored {} rows: mean {:.2f} %, 90th percentile {:.2f} %, largest {:.2f} %, bias {:+.2f} %\n",
      scored.size(), s.mean_abs * 100, s.p90_abs * 100, s.max_abs * 100, s.bias * 100);
  CHECK(s.mean_abs <= 0.08);
  CHECK(s.p90_abs <= 0.16);
}

TEST_CASE("published step times with all-to-all context parallelism") {
  const std::vector<PublishedRow> rows = simulate_rows("tests/published/dense_cp_a2a.jsonl", 0);
  REQUIRE(rows.size() == 7);
  for (const PublishedRow& r : rows)
    fmt::print("  {:<20} {} measured {:8.3f} s  predicted {:8.3f} s  {:+6.1f} %\n", r.id,
               r.scored ? ' ' : '-', r.measured_seconds, r.predicted_seconds, r.error() * 100);
  CHECK(statistics(rows).mean_abs <= 0.08);
}
