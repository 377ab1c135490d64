// Ranks that provably behave alike are simulated once. Without faults the classes depend on the
// pipeline stage and on where each of a rank's groups sits; when every group of a kind sits alike,
// one device per stage is enough, otherwise the classes are the coarsest equitable partition
// (colour refinement over the groups).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/parallel/mesh.h"

namespace stepsim {

/// Representative ranks and what each stands for. Device numbers index `ranks`; they ascend with
/// the rank.
struct Folding {
  std::vector<int> ranks;
  std::vector<int64_t> represents;
  std::vector<int> device_of_rank;  ///< empty when `regular`
  bool regular = false;             ///< device = pipeline stage
  int ranks_per_stage = 1;

  int device(int rank) const {
    return regular ? rank / ranks_per_stage : device_of_rank[static_cast<size_t>(rank)];
  }
};

/// `domain`: consecutive ranks that share NVLink. `unfold`: every rank is simulated.
Folding fold(const Mesh& mesh, const Parallelism& parallel, int domain, bool unfold);

}  // namespace stepsim
