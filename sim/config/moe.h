// The mixture of experts of a decoder: how many experts, how wide, in which layers.
// Names after Megatron-Core's TransformerConfig (moe_*, num_moe_experts).
#pragma once

#include <cstdint>
#include <vector>

namespace stepsim {

/// Experts of the MoE layers; all MoE layers of a model are alike. `experts` == 0: a dense model.
struct Moe {
  int experts = 0;                   ///< routed experts of one layer
  int top_k = 0;                     ///< experts that one token is sent to
  int64_t ffn_hidden = 0;            ///< width of one routed expert
  int64_t shared_ffn_hidden = 0;     ///< of all shared experts together; 0 = none
  int64_t latent = 0;                ///< width that routed experts work in; 0 = the hidden size
  bool shared_gate = false;          ///< a learnt gate scales the shared expert's output
  bool expert_bias = false;          ///< a score bias per expert: a buffer, not a parameter
  bool sigmoid_scores = false;       ///< the router scores experts one by one, not by a softmax
  bool router_fp32 = false;          ///< moe_router_dtype fp32: probabilities travel in 4 bytes
  int groups = 0, groups_top_k = 0;  ///< group-limited routing; 0 = not limited
  std::vector<bool> layers{};        ///< one a decoder layer: is it a MoE layer

  bool present() const { return experts > 0; }
  bool at(int layer) const { return present() && layers[static_cast<size_t>(layer)]; }
};

}  // namespace stepsim
