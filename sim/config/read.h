// Reading: files and command-line words become a Scenario, or one Error.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/config/scenario.h"

namespace stepsim {

/// Where `models/`, `hardware/` and `scenarios/` are. Order: $STEPSIM_DATA, the current directory,
/// the installed share folder.
struct DataPaths {
  std::filesystem::path root;
  std::vector<std::filesystem::path> more_models, more_systems;  ///< searched after root
};
DataPaths find_data();

/// `first_error`: what Megatron would raise, and what this release does not simulate, is one Error.
/// `collect`: it becomes findings of kind error and advice, and resolution goes on.
enum class Strictness { first_error, collect };

/// `path`: a scenario (JSON), a Megatron-Bridge YAML or a Megatron-LM script or argument file.
/// `overrides`: "section.key=value" words, applied last; `cluster`: NAME[:NODES] or empty.
Scenario read_scenario(const std::string& path, std::span<const std::string> overrides,
                       const std::string& cluster, const DataPaths& data,
                       Strictness strictness = Strictness::first_error);
/// The same from JSON text that is not a file; `file` is what errors point at.
Scenario read_scenario_text(const std::string& text, const std::string& file,
                            std::span<const std::string> overrides, const std::string& cluster,
                            const DataPaths& data, Strictness strictness = Strictness::first_error);

Model read_model(const std::string& name_or_path, const DataPaths& data);
/// A system at `nodes` nodes, all GPUs in use, with the stack profile that serves `release`.
Cluster read_cluster(const std::string& name_or_path, int nodes, const std::string& release,
                     const DataPaths& data);

/// Upper bound of the tasks that simulating `devices` devices makes (PP of them when alike ranks
/// are folded), and how many a scenario may ask for.
double estimated_tasks(const Scenario& scenario, int64_t devices);
inline constexpr int64_t most_tasks = 60'000'000;

/// A catalogue row for `stepsim list`.
struct CatalogueRow {
  std::string name, description;
};
std::vector<CatalogueRow> list_models(const DataPaths& data);
std::vector<CatalogueRow> list_clusters(const DataPaths& data);
std::vector<CatalogueRow> list_scenarios(const DataPaths& data);

}  // namespace stepsim
