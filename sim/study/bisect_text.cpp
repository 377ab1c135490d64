#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/report/json_parts.h"
#include "sim/report/page.h"
#include "sim/study/bisect.h"
#include "sim/study/diff_text.h"

namespace stepsim {

std::string bisection_text(const Diff& d, const Bisection& found, double share) {
  Page page(page_width);
  const double a = d.a.report.step_seconds;
  page.line("{} -> {}: {} ({:+.2f} %), {} change{}", diff_words::step(a),
            diff_words::step(d.b.report.step_seconds), diff_words::delta(d.delta_seconds, a),
            d.relative() * 100, d.by_change.size(), d.by_change.size() == 1 ? "" : "s");
  page.blank();
  if (found.shares.empty()) {
    page.line("{}", d.delta_seconds == 0 ? "There is no difference to explain."
                                         : "No change that is modelled explains it.");
    return page.text();
  }
  page.line("{} change{} explain{} {} of it, {:.1f} % ({:.0f} % asked for):", found.shares.size(),
            found.shares.size() == 1 ? "" : "s", found.shares.size() == 1 ? "s" : "",
            diff_words::delta(found.explained_seconds, a),
            found.explained_seconds / d.delta_seconds * 100, share * 100);
  for (const size_t i : found.shares)
    page.paragraph("  ", diff_words::change(d, d.by_change[i]), 3);
  page.blank();
  page.paragraph("",
                 found.smallest
                     ? fmt::format("No smaller set does: all {} combinations were simulated.",
                                   d.attribution.combinations)
                     : "A smaller set may exist: there are too many combinations to try all.",
                 2);
  page.line("Taken back from B they leave {}.", diff_words::delta(found.left_seconds, a));
  if (!found.as_small.empty())
    page.line("{} other set{} of {} also do{}.", found.as_small.size(),
              found.as_small.size() == 1 ? "" : "s", found.shares.size(),
              found.as_small.size() == 1 ? "es" : "");
  const std::vector<std::string> heads = diff_words::headlines(d);
  if (!heads.empty()) {
    page.blank();
    page.paragraph("Note: ", heads.front(), 3);
  }
  return page.text();
}

std::string bisection_json(const Diff& d, const Bisection& found, double share) {
  const auto keys = [&](const std::vector<size_t>& shares) {
    Json list = Json::array();
    for (const size_t i : shares)
      for (const size_t c : d.by_change[i].changes) {
        const KeyChange& k = d.requested[c];
        list.push_back({{"key", k.key},
                        {"from", k.from.empty() ? Json() : parsed_json(k.from)},
                        {"to", k.to.empty() ? Json() : parsed_json(k.to)}});
      }
    return list;
  };
  Json others = Json::array();
  for (const std::vector<size_t>& set : found.as_small) others.push_back(keys(set));
  const Json out{{"schema", "stepsim.bisect/1"},
                 {"delta_seconds", d.delta_seconds},
                 {"share", share},
                 {"changes", keys(found.shares)},
                 {"explained_seconds", found.explained_seconds},
                 {"left_seconds", found.left_seconds},
                 {"smallest", found.smallest},
                 {"as_small", others}};
  return out.dump(2) + "\n";
}

}  // namespace stepsim
