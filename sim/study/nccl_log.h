// The plain output of nccl-tests: the table that `all_reduce_perf` and its sisters print, with the
// `# Rank` lines above it (NVIDIA/nccl-tests src/common.cu, doc/PERFORMANCE.md). Out-of-place times
// are read. One file may hold several runs.
#pragma once

#include <string>
#include <vector>

#include "sim/network/collective.h"

namespace stepsim {

/// One measured collective of one's own cluster.
struct CollectiveSample {
  Collective op{};
  int gpus = 0, nodes = 0;
  double bytes = 0, seconds = 0;
};

/// The operation is the one that the log names, else the one that the file is called after.
std::vector<CollectiveSample> read_nccl_log(const std::string& text, const std::string& file);
/// Columns op, n_gpus, n_nodes, msg_bytes and time_us, as in tests/published/collectives.csv.
std::vector<CollectiveSample> read_collective_table(const std::string& text,
                                                    const std::string& file);
/// By the ending: .csv is a table, everything else a log.
std::vector<CollectiveSample> read_collective_samples(const std::string& file);

}  // namespace stepsim
