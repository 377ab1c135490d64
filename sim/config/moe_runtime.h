// How experts run: who moves their tokens, which of their kernels are fused, what hides what.
// Names after Megatron-Core's TransformerConfig; what the experts are is Moe (sim/config/moe.h),
// the type of their probabilities Moe::router_fp32.
#pragma once

#include <optional>

#include "sim/config/dispatch.h"

namespace stepsim {

/// The settings of the MoE layers after Bridge's gates. Without experts the defaults mean nothing.
struct MoeRuntime {
  /// `flex` with one of its back-ends is the back-end; on a GPU that it does not support, alltoall.
  Dispatcher dispatcher = Dispatcher::allgather;
  int num_sms = 0;              ///< that dispatch and combine each hold; 0: NCCL's channels decide
  int preprocess_sms = 0;       ///< of HybridEP's kernel that reads the routing map; 0: no kernel
  int ranks_per_domain = 0;     ///< HybridEP: ranks that it takes for one NVLink domain; else 0
  bool shared_overlap = false;  ///< shared experts on a stream of their own
  bool overlap_ep = false;      ///< overlap_moe_expert_parallel_comm: the combined 1F1B
  bool delay_wgrad = false;     ///< delay_wgrad_compute; only with overlap_ep
  /// The dispatch gradient beside the experts' weight gradients, without the combined 1F1B.
  bool overlap_dispatch_backward = false;
  bool high_priority_stream = false;  ///< of the all-to-alls: their kernels start ahead of others

  bool grouped_gemm = true;  ///< all experts of a rank in one kernel; else one each
  bool permute_fusion = false, router_fusion = false;
  bool permute_in_dispatch = false;  ///< HybridEP permutes in its own kernels
  bool op_fuser = false;  ///< grouped fc1, activation, fc2 and their casts as one sequence of TE
  bool fused_grouped_mlp = false;  ///< activation and casts in the epilogues of its GEMMs

  bool balanced = false;  ///< every expert gets the same number of tokens (benchmarks)
  std::optional<double> capacity_factor;       ///< of one expert, over the mean; unset = dropless
  bool pad_to_capacity = false;                ///< each expert's tokens up to its capacity
  std::optional<double> rank_capacity_factor;  ///< tokens that a rank keeps room for, over the mean
  bool paged_stash = false;  ///< activations of experts in pages, sized for the tokens that came
  bool pad_for_quantization = false;  ///< in the routing map, ahead of dispatch
  int pad_multiple = 1;  ///< the tokens of each expert are padded up to a multiple of this

  bool flex() const {
    return dispatcher == Dispatcher::deepep || dispatcher == Dispatcher::hybridep;
  }
  /// Shapes of the experts' tensors are known without asking the GPU how many tokens came.
  bool static_shapes() const { return pad_to_capacity || rank_capacity_factor.has_value(); }
};

}  // namespace stepsim
