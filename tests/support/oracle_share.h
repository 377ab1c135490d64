// Max-min fair speeds computed the slow way, over all flows at once; the definition is in
// sim/engine/fair_share.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/engine/task_graph.h"

namespace stepsim::test {

/// Speeds of the flows, none above its cap (empty: 1 each), by growing all byte rates together in
/// small steps to the next limit that is met.
inline std::vector<double> oracle_speeds(const TaskGraph& graph, const std::vector<uint32_t>& flows,
                                         std::vector<double> caps = {}) {
  const auto claims_of = [&](uint32_t f) { return graph.claims_of(graph.flows[f]); };
  caps.resize(flows.size(), 1);
  const auto units = [](const Claim& c) { return static_cast<double>(c.rate) * c.multiplicity; };
  std::vector<double> demand(graph.capacities.size(), 0), full_rate(flows.size(), 0),
      rate(flows.size(), 0);
  for (size_t i = 0; i < flows.size(); ++i) {
    double tightest = 0;
    for (const Claim& c : claims_of(flows[i])) {
      demand[index(c.resource)] += units(c) * caps[i];
      const double share = units(c) / graph.capacities[index(c.resource)];
      if (share > tightest)
        std::tie(tightest, full_rate[i]) = std::pair(share, static_cast<double>(c.rate));
    }
  }
  std::vector<bool> growing(flows.size());
  for (size_t i = 0; i < flows.size(); ++i) growing[i] = full_rate[i] > 0;
  while (std::find(growing.begin(), growing.end(), true) != growing.end()) {
    // Units taken now, and taken more for each unit that the growing flows' byte rates rise.
    std::vector<double> used(graph.capacities.size(), 0), slope(graph.capacities.size(), 0);
    double step = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < flows.size(); ++i) {
      if (full_rate[i] <= 0) continue;
      for (const Claim& c : claims_of(flows[i])) {
        used[index(c.resource)] += units(c) * rate[i] / full_rate[i];
        if (growing[i]) slope[index(c.resource)] += units(c) / full_rate[i];
      }
      if (growing[i]) step = std::min(step, full_rate[i] * caps[i] - rate[i]);
    }
    const auto binds = [&](size_t r) {
      return demand[r] > graph.capacities[r] * (1 + std::ldexp(1.0, -22));
    };
    const auto room = [&](size_t r) { return (graph.capacities[r] - used[r]) / slope[r]; };
    for (size_t r = 0; r < used.size(); ++r) {
      if (slope[r] > 0 && binds(r)) step = std::min(step, std::max(0.0, room(r)));
    }
    const std::vector<bool> grew = growing;
    for (size_t i = 0; i < flows.size(); ++i) {
      if (!grew[i]) continue;
      const double most = full_rate[i] * caps[i];
      bool stops = most - rate[i] <= step;
      for (const Claim& c : claims_of(flows[i])) {
        const size_t r = index(c.resource);
        stops = stops || (binds(r) && units(c) > 0 && room(r) <= step * (1 + 1e-13));
      }
      rate[i] = most - rate[i] <= step ? most : rate[i] + step;
      growing[i] = !stops;
    }
  }
  std::vector<double> speeds = caps;
  for (size_t i = 0; i < flows.size(); ++i) {
    if (full_rate[i] > 0) speeds[i] = rate[i] / full_rate[i];
  }
  return speeds;
}

}  // namespace stepsim::test
