// A Scenario: everything one training step depends on, resolved. Immutable after reading.
// Keys are Megatron-Bridge's own; `effective` and `findings` say what became of what was asked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/adapters.h"
#include "sim/config/doubt_shares.h"
#include "sim/config/faults.h"
#include "sim/config/given_costs.h"
#include "sim/config/host_optimizer.h"
#include "sim/config/kernel_times.h"
#include "sim/config/model.h"
#include "sim/config/module_offload.h"
#include "sim/config/moe_routing.h"
#include "sim/config/moe_runtime.h"
#include "sim/config/parallelism.h"
#include "sim/config/precision.h"
#include "sim/config/recompute.h"
#include "sim/config/software.h"

namespace stepsim {

/// What resolution changed or noticed. `silent`: Bridge changes it without an error.
struct Finding {
  enum class Kind { silent, error, unit, advice };
  std::string id;
  Kind kind = Kind::advice;
  std::string key, pointer, requested, effective, reason;
  std::string file{};  ///< that `pointer` is in
};

/// How one tensor-parallel GEMM hides its collective (semantics: Transformer Engine userbuffers).
enum class TpMethod { none, ring_exchange, pipeline, bulk };
enum class TpGemm {
  qkv_fprop,
  proj_fprop,
  fc1_fprop,
  fc2_fprop,
  qkv_dgrad,
  proj_dgrad,
  fc1_dgrad,
  fc2_dgrad,
  qkv_wgrad,
  fc1_wgrad
};
inline constexpr int tp_gemm_count = 10;
struct TpOverlap {
  TpMethod method = TpMethod::none;
  int num_sm = 0, num_splits = 4;
  bool aggregate = false, set_sm_margin = false;
};

/// Overlap switches after Bridge's gates.
struct Overlap {
  bool tp_comm_overlap = false;
  std::array<TpOverlap, tp_gemm_count> tp{};  ///< all `none` when tp_comm_overlap is off
  bool overlap_p2p = false, batch_p2p = true, p2p_warmup_flush = false;
  bool overlap_grad_reduce = false, overlap_param_gather = false, align_param_gather = false;
  bool align_grad_reduce = true, deallocate_pipeline_outputs = true;
  bool param_gather_with_optimizer_step = false, defer_embedding_wgrad = false;
  int wgrad_deferral_limit = -1;
};

/// cross_entropy_fusion_impl: passes over the fp32 logits differ.
enum class CrossEntropy { unfused, native, te };

/// Everything resolved.
struct Scenario {
  std::string file, name, description, source;
  std::optional<double> measured_step_seconds;  ///< published time, when the file states one
  bool overridden = false;  ///< words of the command line changed what the file says
  Model model;
  Cluster cluster;
  Faults faults;
  Parallelism parallel;
  Precision precision;
  Overlap overlap;
  MoeRuntime moe_runtime;  ///< meant for models with experts only
  MoeRouting moe_routing;
  DataParallel data_parallel;
  Recompute recompute = Recompute::modules;
  int recompute_layers = 1;  ///< recompute_num_layers
  int offloaded_layers = 0;  ///< cpu_offloading_num_layers: the first ones; there is one stage
  RecomputeModules recompute_modules;
  Adapters adapters;
  ModuleOffload module_offload;
  HostOptimizer host_optimizer;
  Batch batch;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::vector<std::vector<OrderEntry>> order;  ///< by pipeline rank, when spelled out
  bool post_validation = false;                ///< the optimizer does not wait for the global norm
  P2pOrder p2p_order = P2pOrder::together;
  std::optional<GivenCosts> costs;
  KernelTimes kernel_times;
  Software software;
  LaunchEnv launch_env;
  Doubts doubts;
  bool full_iteration_graph = false;  ///< cuda_graph_impl local, scope full_iteration
  /// CUDA graphs around these parts of a layer; `graph_moe`: everything between its dispatch and
  /// its end.
  bool graph_attention = false, graph_mlp = false, graph_router = false, graph_preprocess = false,
       graph_moe = false, graph_mixer = false;
  CrossEntropy cross_entropy = CrossEntropy::native;
  bool fused_rope = true, gradient_accumulation_fusion = true;

  std::vector<Finding> findings;
  std::map<std::string, std::string> effective;  ///< dotted Bridge key -> JSON text in effect
  std::vector<std::string> not_modelled;         ///< dotted Bridge keys listed once
  std::string resolved_json;                     ///< the merged input as canonical JSON text
};

}  // namespace stepsim
