// Scenarios in one line: a model on a system under a layout. The notation of the law tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/config/read.h"
#include "sim/simulate.h"

namespace stepsim::test {

/// STEPSIM_QUICK=1 thins every grid (sanitizer runs).
inline bool quick() { return std::getenv("STEPSIM_QUICK") != nullptr; }
/// `full`, or `thin` under STEPSIM_QUICK.
inline int pick(int full, int thin) { return quick() ? thin : full; }

/// Every transfer as if alone: what laws about directions ask for.
constexpr SimulateOptions apart{.unfold = false, .sharing = false};

/// Sizes and switches of one run; the world is TP x CP x DP x PP, a chunk holds `layers` layers.
struct Layout {
  int tp = 1, cp = 1, dp = 1, pp = 1, vp = 0;  ///< vp 0: unset
  int microbatches = 2, micro = 1, layers = 1;
  bool sp = false, tp_overlap = false;
  bool sharded = true;  ///< distributed optimizer
  bool grad_overlap = false, gather_overlap = false;
  std::string recompute = "none";  ///< none, uniform, block, or modules: core_attn+mlp
  std::string precision = "bf16_mixed";
  int sequence = 2048;

  int world() const { return tp * cp * dp * pp; }
};

inline std::ostream& operator<<(std::ostream& out, const Layout& l) {
  out << "TP" << l.tp << " CP" << l.cp << " DP" << l.dp << " PP" << l.pp << " VP" << l.vp << " M"
      << l.microbatches << (l.sp ? " sp" : "") << (l.tp_overlap ? " tp-overlap" : "")
      << (l.sharded ? " sharded" : "") << (l.grad_overlap ? " grad-overlap" : "")
      << (l.gather_overlap ? " gather-overlap" : "") << " recompute=" << l.recompute << " "
      << l.precision;
  return out;
}

inline nlohmann::json scenario_json(const std::string& model, const std::string& system,
                                    const Layout& l) {
  nlohmann::json s;
  s["cluster"] = {{"system", system}, {"gpus", l.world()}};
  s["model"] = {{"hf_config", model},
                {"num_layers", l.layers * l.pp * (l.vp > 0 ? l.vp : 1)},
                {"tensor_model_parallel_size", l.tp},
                {"pipeline_model_parallel_size", l.pp},
                {"context_parallel_size", l.cp},
                {"sequence_parallel", l.sp}};
  if (l.vp > 0) s["model"]["virtual_pipeline_model_parallel_size"] = l.vp;
  if (l.recompute == "uniform" || l.recompute == "block") {
    s["model"]["recompute_granularity"] = "full";
    s["model"]["recompute_method"] = l.recompute;
    s["model"]["recompute_num_layers"] = 1;
  } else if (l.recompute != "none") {
    s["model"]["recompute_granularity"] = "selective";
    std::istringstream modules(l.recompute);
    for (std::string name; std::getline(modules, name, '+');)
      s["model"]["recompute_modules"].push_back(name);
  }
  s["ddp"]["use_distributed_optimizer"] = l.sharded;
  if (l.sharded) {
    s["comm_overlap"] = {{"tp_comm_overlap", l.tp_overlap},
                         {"overlap_grad_reduce", l.grad_overlap},
                         {"overlap_param_gather", l.gather_overlap}};
  } else {
    s["model"]["tp_comm_overlap"] = l.tp_overlap;
    s["ddp"]["overlap_grad_reduce"] = l.grad_overlap;
  }
  s["mixed_precision"] = l.precision;
  s["dataset"]["seq_length"] = l.sequence;
  s["train"] = {{"global_batch_size", l.micro * l.dp * l.microbatches},
                {"micro_batch_size", l.micro}};
  return s;
}

inline const DataPaths& data() {
  static const DataPaths paths = find_data();
  return paths;
}

/// Throws Error where the reader refuses it.
inline Scenario read(const nlohmann::json& json) {
  return read_scenario_text(json.dump(), "laws.json", {}, "", data());
}

/// A step that must finish.
inline Simulation step_of(const Scenario& scenario, SimulateOptions options = {}) {
  return std::get<Simulation>(simulate(scenario, options));
}
inline double seconds_of(const Scenario& scenario, SimulateOptions options = {}) {
  return step_of(scenario, options).report.step_seconds;
}

/// Largest magnitude of a - b relative to them.
inline double relative(double a, double b) {
  const double scale = std::max({std::abs(a), std::abs(b), 1e-300});
  return std::abs(a - b) / scale;
}

}  // namespace stepsim::test
