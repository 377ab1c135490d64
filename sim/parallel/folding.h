// Ranks that provably behave alike are simulated once. Without faults the classes depend on the
// pipeline stage and on where each of a rank's groups sits; when every group of a kind sits alike,
// one device per stage is enough, otherwise the classes are the coarsest equitable partition
// (colour refinement over the groups). Faults are its first colours: a faulty rank parts those that
// share a group with it, their peers in turn as far as they see a difference, and no others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/parallel/mesh.h"

namespace stepsim {

/// What of the hardware tells ranks apart. The default: nothing does.
struct Surroundings {
  /// Ranks u*k ... u*k+u-1 share something (an NVLink domain, a node, a switch), for every u here.
  std::vector<int> units{};
  /// What a group's cost depends on: groups of equal keys cost alike.
  std::function<std::vector<double>(std::span<const int> ranks)> key{};
  /// Pairs of ranks of one number have equal keys; a shortcut that may be absent.
  std::function<int(int, int)> same_pair{};
  /// What else sets a rank apart, by rank: equal marks are alike. Empty: nothing does.
  std::vector<int> marks{};
  bool in_order = true;  ///< ranks sit on GPUs in their own order: the units are blocks of ranks
  bool alike = true;     ///< false: no two ranks are (a free-form graph); each is simulated
};

/// Representative ranks and what each stands for. Device numbers index `ranks`; they ascend with
/// the rank.
struct Folding {
  std::vector<int> ranks;
  std::vector<int64_t> represents;
  std::vector<int> device_of_rank;  ///< empty when `regular`
  bool regular = false;             ///< device = pipeline stage
  int stage_stride = 1, stages = 1;

  int device(int rank) const {
    return regular ? rank / stage_stride % stages : device_of_rank[static_cast<size_t>(rank)];
  }
};

/// `unfold`: every rank is simulated.
Folding fold(const Mesh& mesh, const Parallelism& parallel, const Surroundings& surroundings,
             bool unfold);

}  // namespace stepsim
