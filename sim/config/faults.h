// What is wrong with single GPUs, NICs and links of a cluster, and how unevenly its GPUs run:
// cluster.faults, cluster.slowdown and cluster.jitter, resolved to one row a rank.
//
// Jitter draws a factor a rank, in rank order: 1 + sigma * z, z the sum of twelve uniforms less 6
// (Irwin-Hall: mean 0, variance 1, never beyond 6). Additions and std::mt19937_64 only, both exact
// by their standards, so a seed gives the same bits on every platform; std::normal_distribution and
// std::exp do not.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/config/cluster.h"

namespace stepsim {

/// What sets one rank apart from a sound one.
struct RankFault {
  double slowdown = 1;  ///< its kernels take so many times as long
  Seconds delay_per_forward, delay_per_backward, delay_per_step;  ///< before the work they delay
  double nvlink_factor = 1, nic_factor = 1;  ///< usable share of its port's bandwidth
  bool operator==(const RankFault&) const = default;
};

/// Everything injected into a scenario. A link of a free-form graph is changed in
/// `Cluster::links` itself.
struct Faults {
  std::vector<RankFault> ranks;           ///< by rank; empty: all are sound
  std::vector<TopologyLink> sound_links;  ///< what Cluster::links was; empty: no link is faulty
  int64_t count = 0;  ///< entries of cluster.faults; slowdown and jitter are one a rank

  bool any() const { return !ranks.empty() || !sound_links.empty(); }
  RankFault of(int rank) const {
    return ranks.empty() ? RankFault{} : ranks[static_cast<size_t>(rank)];
  }
};

struct Scenario;
/// The same scenario with nothing injected.
Scenario without_faults(Scenario scenario);

/// Slowdown of ranks 0 .. count-1.
std::vector<double> jitter_factors(uint64_t seed, double sigma, int count);
/// sigma keeps every factor above a tenth.
inline constexpr double most_jitter = 0.15;
/// Ranks that can be told apart one by one: a row each.
inline constexpr int most_fault_ranks = 1 << 20;

}  // namespace stepsim
