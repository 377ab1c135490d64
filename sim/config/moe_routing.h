// How unevenly tokens spread over experts (costs.moe_routing), and what that makes of the ranks
// that hold them. Expected loads; samples are drawn from a seed: the same input gives the same
// step.
//
// Zipf: the i-th most popular expert is as likely as i^-s. A token takes k distinct experts one
// after the other; expert i is among them with probability 1 - exp(-L p_i), L such that these add
// up to k (successive sampling: Rosen, Ann. Math. Stat. 43 (1972), in the limit of many experts).
// Experts are dealt to ranks in turn by popularity: real ones are not sorted by it. With several
// samples each is a draw of which expert lies where (hot_ranks: of which ranks are hot).
#pragma once

#include <cstdint>
#include <vector>

namespace stepsim {

struct ScenarioSections;
struct Scenario;

/// costs.moe_routing.
struct MoeRouting {
  enum class Kind { balanced, zipf, hot_ranks, histogram, rank_loads };
  Kind kind = Kind::balanced;
  double exponent = 0;   ///< zipf
  int hot_ranks = 0;     ///< EP ranks that together get
  double hot_share = 0;  ///< this share of all copies of tokens
  /// Tokens of each expert; one row a sample (a layer, a step).
  std::vector<std::vector<double>> histogram{};
  std::vector<double> rank_loads{};  ///< rank_loads: RoutingLoad::by_rank itself
  int draws = 1;                     ///< zipf, hot_ranks: samples; 1: the expected load
  uint64_t seed = 0;
  /// How many steps there are to tell apart.
  int samples() const {
    return kind == Kind::histogram ? static_cast<int>(histogram.size()) : draws;
  }
};

/// Tokens of each EP rank over their mean.
struct RoutingLoad {
  std::vector<double> by_rank;  ///< mean 1
  double max = 1;               ///< of the hottest rank, which the others wait for
};

/// The load of all samples together, or the expected one.
RoutingLoad routing_load(const MoeRouting& routing, int experts, int ep, int top_k);
/// One load a sample.
std::vector<RoutingLoad> routing_loads(const MoeRouting& routing, int experts, int ep, int top_k);

/// Reads costs.moe_routing. Needs the experts and EP.
void resolve_moe_routing(const ScenarioSections& sections, Scenario& scenario);

}  // namespace stepsim
