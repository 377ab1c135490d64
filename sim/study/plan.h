// The fastest layout of a model on a number of GPUs, with a guarantee.
//
// Every layout of the space is resolved, its memory counted on the fullest rank, and a lower bound
// of its step worked out (lower_bound.h). Those that fit are simulated by ascending bound until no
// bound is below the last of the steps that are asked for: what was never simulated provably ranks
// behind. The same holds for the frontier of step against memory.
// Law: the result does not depend on the number of threads and processes, and brute force over the
// space finds the same (tests/study).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/study/errands.h"
#include "sim/study/experiment.h"
#include "sim/study/layouts.h"

namespace stepsim {

/// What is planned for.
struct PlanRequest {
  std::string file;           ///< of the base; errors point at it
  std::string base;           ///< JSON text, with its cluster and all overrides
  bool own_settings = false;  ///< the base is somebody's scenario: its settings are options too
  std::vector<std::string> words;  ///< overrides that are in the base already: what they set stays
  std::vector<Axis> axes;          ///< narrow or widen the space
  bool tp_across_domains = false;
  int top = 5;               ///< as many rows are ranked for certain
  bool frontier = true;      ///< steps against memory, too
  bool brute_force = false;  ///< everything that fits is simulated
  std::string against;       ///< JSON text of a layout to be ranked; empty: none
  size_t sample = 0;         ///< so many layouts of the space, drawn evenly; 0: all
  DataPaths data;
};
struct PlanRun {
  size_t threads = 1;
  Crew crew{};  ///< in place of threads
  std::function<bool()> stop{};
  /// "layouts" or "simulations", how many are done and of how many; by one thread at a time.
  std::function<void(const char* what, size_t done, size_t of)> progress{};
};

/// A simulated layout.
struct PlanRow {
  Layout layout;
  std::string scenario;  ///< JSON text
  double bound_seconds = 0;
  Outcome outcome;
  Figures figures;
};

/// Where a given layout stands among those that fit.
struct Standing {
  Outcome outcome;
  Figures figures;
  /// Layouts that were simulated and are faster, and those of which no bound says they are not.
  size_t faster = 0, maybe_faster = 0;
};

struct LayoutPlan {
  int gpus = 0;
  LayoutSpace space;
  bool experts = false;
  size_t drawn_of = 0;  ///< size of the space when only a sample of it was looked at; 0: all of it
  size_t refused = 0;   ///< combinations that Megatron would refuse: no layouts
  size_t alike = 0;     ///< combinations that are another one in effect, by gates or defaults
  size_t layouts = 0, infeasible = 0, simulated = 0, failed = 0;
  size_t feasible() const { return layouts - infeasible; }
  size_t pruned() const { return feasible() - simulated; }
  bool complete = true;              ///< false: interrupted
  std::vector<PlanRow> rows;         ///< all that were simulated, fastest first
  size_t ranked = 0;                 ///< of them, those that are certain
  std::vector<size_t> frontier;      ///< rows that nothing beats in both step and memory
  std::string guide;                 ///< where the guide starts; "" where it says nothing
  std::optional<PlanRow> guide_row;  ///< the fastest layout that it means and that fits
  std::optional<Standing> standing;
};
LayoutPlan plan(const PlanRequest& request, int gpus, const PlanRun& run);

/// Base of a model that is known by name: what Megatron-Bridge's recipes have in common.
std::string base_of_model(const std::string& model, const std::string& cluster, int gpus,
                          int64_t sequence, int64_t global_batch, const DataPaths& data);

}  // namespace stepsim
