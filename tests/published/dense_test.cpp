// Every dense published row whose features exist here: predicted against measured, by model and
// GPU.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "tests/published/predictions.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

void print_step(const PublishedStep& row) {
  fmt::print("  {:<20} {} measured {:8.3f} s  predicted {:8.3f} s  {:+6.1f} %\n", row.id,
             row.scored ? ' ' : '-', row.measured_seconds, predicted(row).seconds,
             error(row) * 100);
}

std::vector<double> errors_of(const std::vector<const PublishedStep*>& rows) {
  std::vector<double> errors;
  for (const PublishedStep* row : rows) errors.push_back(error(*row));
  return errors;
}

}  // namespace

TEST_CASE(
    "dense published step times: newest rows within 8% on average and 16% at the 90th percentile") {
  const std::vector<PublishedStep>& rows = published_steps("dense");
  REQUIRE(rows.size() >= 125);
  if (quick()) {  // a sample for the sanitizers; the statistics need every row
    for (size_t i = 0; i < rows.size(); i += 12) CHECK(predicted(rows[i]).seconds > 0);
    return;
  }
  std::map<std::string, std::vector<const PublishedStep*>> groups;
  std::vector<const PublishedStep*> scored;
  for (const PublishedStep& row : rows) {
    groups[row.group].push_back(&row);
    if (row.scored) scored.push_back(&row);
  }
  for (const auto& [group, members] : groups) {
    fmt::print("{} ({} rows)\n", group, members.size());
    for (const PublishedStep* row : members) print_step(*row);
  }
  const ErrorStatistics s = statistics(errors_of(scored));
  fmt::print(
      "scored {} rows: mean {:.2f} %, 90th percentile {:.2f} %, largest {:.2f} %, bias {:+.2f} %\n",
      scored.size(), s.mean_abs * 100, s.p90_abs * 100, s.max_abs * 100, s.bias * 100);
  CHECK(s.mean_abs <= 0.08);
  CHECK(s.p90_abs <= 0.16);
}

TEST_CASE("published step times with all-to-all context parallelism") {
  const std::vector<PublishedStep>& rows = published_steps("dense_cp_a2a");
  REQUIRE(rows.size() == 7);
  std::vector<const PublishedStep*> all;
  for (const PublishedStep& row : rows) {
    print_step(row);
    all.push_back(&row);
  }
  CHECK(statistics(errors_of(all)).mean_abs <= 0.08);
}
