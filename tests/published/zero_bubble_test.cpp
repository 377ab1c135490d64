// Bubble rates that the zero-bubble paper works out from its own profiled times, for every
// schedule, model and number of microbatches: cost - m(TF+TB+TW) over cost, where cost is the
// longest that any stage takes (section 5.3, table 5). What a weight half keeps follows from the
// model (table 1). Who is ahead of whom must come out too.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "tests/published/rows.h"

using namespace stepsim;
using namespace stepsim::test;

TEST_CASE("published bubble rates of zero-bubble schedules: within 1.5 points, in their order") {
  std::ifstream in("tests/published/zero_bubble.jsonl");
  std::map<std::pair<std::string, int>, std::vector<std::pair<double, double>>> cells;
  double worst = 0;
  int compared = 0;
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    const std::string id = row.at("id"), model = row.at("model");
    const int m = row.at("microbatches");
    const Scenario s = read_scenario_text(row.at("scenario").dump(), id, {}, "", published_data());
    const double cost = std::get<Simulation>(simulate(s)).report.step_seconds;
    const auto& costs = row.at("scenario").at("costs");
    double work = 0;
    for (const char* part :
         {"forward_seconds", "backward_input_seconds", "backward_weight_seconds"})
      work += costs.at(part).get<double>() * s.parallel.chunks();
    const double rate = 1 - m * work / cost, published = row.at("bubble_rate");
    const std::string schedule = row.at("scenario").at("pipeline").at("schedule");
    fmt::print("{:<6} {:>4} microbatches {:<12} published {:6.2f} %  predicted {:6.2f} %\n", model,
               m, schedule, published * 100, rate * 100);
    CAPTURE(id);
    CHECK(std::abs(rate - published) < 0.015);
    worst = std::max(worst, std::abs(rate - published));
    cells[{model, m}].push_back({published, rate});
    ++compared;
  }
  CHECK(compared == 48);
  for (const auto& [cell, rates] : cells) {
    CHECK(rates.size() == 4);
    for (const auto& [published, rate] : rates)
      for (const auto& [other_published, other_rate] : rates)
        if (published < other_published) CHECK(rate < other_rate);
  }
  fmt::print("{} rates: at most {:.2f} points off\n", compared, worst * 100);
}
