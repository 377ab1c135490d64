// Operations by name, and the bandwidths of nccl-tests: algorithm bandwidth is size over time, bus
// bandwidth that times what a member's link must carry of the size at least. They are not to be
// mixed (NVIDIA/nccl-tests doc/PERFORMANCE.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/network/collective.h"

namespace stepsim {

/// "all_reduce", and the spellings of nccl-tests ("alltoall", "sendrecv", "all_reduce_perf").
std::optional<Collective> operation_named(std::string_view name);
std::string_view operation_name(Collective op);
std::vector<std::string> operation_names();

/// Bus over algorithm bandwidth among `members` ranks.
double bus_factor(Collective op, int members);

}  // namespace stepsim
