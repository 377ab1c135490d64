#include "sim/study/bisect.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace stepsim {
namespace {

/// Of `Attribution::players`, the number of each of `by_change`.
std::vector<size_t> players_of(const Diff& d) {
  std::vector<size_t> result;
  for (const ChangeShare& share : d.by_change) {
    const auto& players = d.attribution.players;
    result.push_back(static_cast<size_t>(std::find(players.begin(), players.end(), share.changes) -
                                         players.begin()));
  }
  return result;
}

/// Every set was simulated: the smallest that explains enough.
Bisection among_all(const Diff& d, double needed, double sign) {
  const std::vector<double>& v = d.attribution.values;
  const std::vector<size_t> players = players_of(d);
  const auto explained = [&](size_t set) { return sign * (v[set] - v[0]); };
  const double rounding = 1e-9 * std::abs(d.delta_seconds);
  std::vector<size_t> best;
  for (size_t set = 0; set < v.size(); ++set) {
    if (explained(set) < needed - rounding) continue;
    if (!best.empty() && std::popcount(set) > std::popcount(best.front())) continue;
    if (!best.empty() && std::popcount(set) < std::popcount(best.front())) best.clear();
    best.push_back(set);
  }
  std::stable_sort(best.begin(), best.end(),
                   [&](size_t x, size_t y) { return explained(x) > explained(y); });
  const auto shares = [&](size_t set) {
    std::vector<size_t> found;
    for (size_t i = 0; i < players.size(); ++i)
      if ((set >> players[i] & 1) != 0) found.push_back(i);
    return found;
  };
  Bisection result{.shares = shares(best.front()),
                   .explained_seconds = v[best.front()] - v[0],
                   .left_seconds = v[(v.size() - 1) & ~best.front()] - v[0],
                   .smallest = true,
                   .as_small = {}};
  for (size_t i = 1; i < best.size(); ++i) result.as_small.push_back(shares(best[i]));
  return result;
}

/// Grown by the largest shares until it explains enough, then thinned.
Bisection grown(const Diff& d, double needed, double sign, const DataPaths& data) {
  const DocumentPair documents(d.a.scenario, d.b.scenario);
  Mixtures mixtures(documents, data, std::max(d.a.report.tasks, d.b.report.tasks), {});
  const double a_seconds = d.a.report.step_seconds, rounding = 1e-9 * std::abs(d.delta_seconds);
  const auto step = [&](const std::vector<size_t>& shares, bool made) {
    Subset set(d.requested.size(), !made);
    for (const size_t s : shares)
      for (const size_t c : d.by_change[s].changes) set[c] = made;
    return mixtures.steps({set}, Rounds::whole).front();
  };
  const auto enough = [&](const std::vector<size_t>& shares) {
    const auto seconds = step(shares, true);
    return seconds && sign * (*seconds - a_seconds) >= needed - rounding;
  };
  std::vector<size_t> order(d.by_change.size()), set;
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    return sign * d.by_change[x].delta_seconds > sign * d.by_change[y].delta_seconds;
  });
  for (const size_t next : order) {
    if (enough(set)) break;
    set.push_back(next);
  }
  for (size_t i = set.size(); i-- > 0 && set.size() > 1;) {
    std::vector<size_t> fewer;
    for (size_t k = 0; k < set.size(); ++k)
      if (k != i) fewer.push_back(set[k]);
    if (enough(fewer)) set.swap(fewer);
  }
  std::sort(set.begin(), set.end());
  Bisection result{
      .shares = set, .explained_seconds = 0, .left_seconds = 0, .smallest = false, .as_small = {}};
  result.explained_seconds = step(set, true).value_or(a_seconds) - a_seconds;
  result.left_seconds = step(set, false).value_or(a_seconds) - a_seconds;
  return result;
}

}  // namespace

Bisection bisect(const Diff& d, double share, const DataPaths& data) {
  if (d.delta_seconds == 0 || d.by_change.empty()) return {};
  const double sign = d.delta_seconds > 0 ? 1 : -1;
  const double needed = share * std::abs(d.delta_seconds);
  return d.attribution.values.empty() ? grown(d, needed, sign, data) : among_all(d, needed, sign);
}

}  // namespace stepsim
