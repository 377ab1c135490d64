// Reading a system file and the GPU it names.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "sim/config/device_read.h"
#include "sim/config/files.h"
#include "sim/config/reader.h"

namespace stepsim {

/// One node's worth of the system in `config`; the caller sets nodes and gpus. `folder`: where the
/// file is. `stack_found`: false when the system has profiles and none serves `release`, so that
/// its first one stands in.
Cluster read_system(const Reader& config, const std::string& name, const std::string& release,
                    const DataPaths& data, const std::filesystem::path& folder, bool& stack_found);
/// A system without a model: NAME:NODES, and words for the sections cluster, software and env_vars.
Cluster read_cluster_words(const std::string& cluster, std::span<const std::string> overrides,
                           const DataPaths& data);
/// Sets nodes and gpus; `gpus` 0 = all of the nodes'. Narrows nvlink_domain to the equal segments
/// that a scheduler gives a job which does not fill whole rack-sized domains.
void scale(Cluster& cluster, int64_t nodes, int64_t gpus);

inline constexpr Range nodes_range{1, 10'000'000}, gpus_range{1, 100'000'000},
    per_node_range{1, 1024};

}  // namespace stepsim
