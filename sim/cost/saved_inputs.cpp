#include "sim/cost/saved_inputs.h"

#include "sim/cost/layer_sizes.h"
#include "sim/cost/quantize.h"

namespace stepsim {

namespace {

/// Adds up the tensors that are large enough to move.
class Saved {
 public:
  explicit Saved(double least_elements) : least_(least_elements) {}
  void add(double elements, double element_bytes) {
    if (elements >= least_) bytes_ += elements * element_bytes;
  }
  double bytes() const { return bytes_; }

 private:
  double least_, bytes_ = 0;
};

void save_attention(const Scenario& s, const LayerSizes& z, double gemm_input, Saved& saved) {
  const ModuleOffload& o = s.module_offload;
  const Mla& a = s.model.mla;
  const double hidden = z.local_tokens * z.hidden;
  const double keys = a.present() ? z.heads * static_cast<double>(a.qk_dim()) : z.kv_features,
               queries = a.present() ? keys : z.head_features,
               values = a.present() ? z.heads * static_cast<double>(a.v_head_dim) : z.kv_features,
               out = a.present() ? values : z.head_features;
  if (o.attn_norm) saved.add(hidden, 2);
  if (o.qkv_linear) saved.add(hidden, gemm_input);
  if (o.core_attn && !s.recompute_modules.mla_up_proj)
    for (const double features : {queries, keys, values}) saved.add(z.tokens * features, 2);
  if (o.attn_proj) saved.add(z.tokens * out, gemm_input);
}

void save_experts(const Scenario& s, const LayerSizes& z, double gemm_input, Saved& saved) {
  const ModuleOffload& o = s.module_offload;
  const Moe& moe = s.model.moe;
  const double copies = z.local_tokens * moe.top_k, width = static_cast<double>(moe.ffn_hidden);
  const double token = moe.latent > 0 ? static_cast<double>(moe.latent) : z.hidden;
  if (o.expert_fc1 || o.fused_group_mlp) saved.add(copies * token * s.parallel.etp, gemm_input);
  if (o.moe_act || o.fused_group_mlp) saved.add(copies * width * z.glu, 2);
  if (o.fused_group_mlp && !s.recompute_modules.moe_act) saved.add(copies * width, gemm_input);
}

}  // namespace

double saved_input_bytes(const Scenario& s, LayerShape shape, bool fp8) {
  if (!s.module_offload.any()) return 0;
  const LayerSizes z = layer_sizes(s);
  const double gemm_input = fp8 ? operand_bytes(s.precision) : 2;  // kept quantised
  Saved saved(s.module_offload.least_elements);
  if (shape.mixer == Mixer::attention) save_attention(s, z, gemm_input, saved);
  if (shape.feed_forward != FeedForward::none && s.module_offload.mlp_norm)
    saved.add(z.local_tokens * z.hidden, 2);
  if (shape.feed_forward == FeedForward::experts) save_experts(s, z, gemm_input, saved);
  return saved.bytes();
}

}  // namespace stepsim
