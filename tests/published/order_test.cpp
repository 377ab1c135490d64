// Which of two configurations is faster: what people ask before they ask how fast.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "tests/published/predictions.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

/// Tokens a second and GPU, measured and predicted.
struct Rate {
  const PublishedStep* row;
  double measured, predicted;
};

}  // namespace

// Nineteen in twenty of all published pairs (README); all dense rows and every fifth with experts
// or in few bits here.
TEST_CASE("published order: of two that differ by more than 4 % the faster is predicted faster") {
  if (quick()) return;
  std::map<std::string, std::vector<Rate>> kin;
  const auto take = [&](const char* file, size_t every) {
    const std::vector<PublishedStep>& rows = published_steps(file);
    for (size_t i = 0; i < rows.size(); i += every) {
      if (!rows[i].scored) continue;
      const Prediction& p = predicted(rows[i]);
      const double work = rows[i].tokens / p.gpus;
      kin[rows[i].kin].push_back({&rows[i], work / rows[i].measured_seconds, work / p.seconds});
    }
  };
  take("dense", 1);
  take("moe", 5);
  take("low_precision", 5);
  int pairs = 0, in_order = 0;
  for (const auto& [name, rates] : kin)
    for (size_t i = 0; i < rates.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const Rate &a = rates[i], &b = rates[j];
        if (std::max(a.measured, b.measured) < 1.04 * std::min(a.measured, b.measured)) continue;
        ++pairs;
        if ((a.measured > b.measured) == (a.predicted > b.predicted))
          ++in_order;
        else
          fmt::print("{}: {} / {} = {:.3f} measured, {:.3f} predicted\n", name, a.row->id,
                     b.row->id, a.measured / b.measured, a.predicted / b.predicted);
      }
  fmt::print("{} of {} pairs in order\n", in_order, pairs);
  CHECK(pairs >= 200);
  CHECK(in_order >= 0.92 * pairs);
}
