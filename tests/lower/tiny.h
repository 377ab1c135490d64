// A tiny decoder layer and its templates as text: the notation of these tests.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "sim/config/read.h"
#include "sim/lower/layer.h"
#include "sim/lower/lower.h"

namespace stepsim::test {

/// Sizes of the run; the rest is one DGX H100 after another.
struct Run {
  int tp = 1, cp = 1, dp = 1, pp = 1, vp = 0, microbatches = 4, layers = 1;
  bool sp = false, tp_overlap = false;
};

/// Hidden 1024, 16 heads of 64, plain MLP of 4096, sequence 2048; `words` are overrides.
inline Scenario tiny(const Run& r, std::vector<std::string> words = {},
                     Strictness strictness = Strictness::first_error) {
  const auto number = [](int64_t n) { return std::to_string(n); };
  const auto boolean = [](bool b) { return std::string(b ? "true" : "false"); };
  std::ostringstream text;
  text
      << R"({"cluster": {"system": "dgx-h100", "gpus": )" << r.tp * r.cp * r.dp * r.pp << R"(},
    "model": {"num_layers": )"
      << r.layers * r.pp * (r.vp > 0 ? r.vp : 1)
      << R"(, "hidden_size": 1024, "num_attention_heads": 16, "vocab_size": 32000, "add_bias_linear": false,
      "position_embedding_type": "rope", "hidden_dropout": 0, "share_embeddings_and_output_weights": false},
    "dataset": {"seq_length": 2048}, "mixed_precision": "bf16_mixed",
    "train": {"global_batch_size": )"
      << r.dp * r.microbatches << R"(, "micro_batch_size": 1}})";
  const auto put = [&](const std::string& key, const std::string& value) {
    words.push_back(key + "=" + value);
  };
  put("model.tensor_model_parallel_size", number(r.tp));
  put("model.context_parallel_size", number(r.cp));
  put("model.pipeline_model_parallel_size", number(r.pp));
  if (r.vp > 0) put("model.virtual_pipeline_model_parallel_size", number(r.vp));
  put("model.sequence_parallel", boolean(r.sp));
  put("model.tp_comm_overlap", boolean(r.tp_overlap));
  return read_scenario_text(text.str(), "tiny.json", words, "", find_data(), strictness);
}

/// The step of one device a stage.
inline LoweredStep lowered(const Scenario& s) {
  const Mesh mesh(s.parallel);
  const Fabric fabric(s.cluster);
  return lower(s, mesh, fold(mesh, s.parallel, {.units = {s.cluster.nvlink_domain}}, false),
               fabric);
}

/// Groups of `n` in one NVLink domain.
inline GroupPlacement together(int n) {
  GroupPlacement g;
  g.size = g.per_domain = n;
  return g;
}
inline LayerTemplates templates(const Scenario& s) {
  LayerGroups groups{together(s.parallel.tp), together(s.parallel.cp)};
  groups.cp_inner = together(s.parallel.cp_inner);
  groups.cp_outer = together(s.parallel.cp / s.parallel.cp_inner);
  return {s, groups};
}

inline std::string brief(OpKind op) {
  switch (op) {
    case OpKind::qkv_gemm:
      return "qkv";
    case OpKind::proj_gemm:
      return "proj";
    case OpKind::fc1_gemm:
      return "fc1";
    case OpKind::fc2_gemm:
      return "fc2";
    case OpKind::attention:
      return "attn";
    case OpKind::q_down_gemm:
      return "q_down";
    case OpKind::kv_down_gemm:
      return "kv_down";
    case OpKind::q_up_gemm:
      return "q_up";
    case OpKind::kv_up_gemm:
      return "kv_up";
    case OpKind::mtp_projection:
      return "mtp";
    case OpKind::cp_all_gather:
      return "[cp AG]";
    case OpKind::cp_reduce_scatter:
      return "[cp RS]";
    case OpKind::cp_all_to_all:
      return "[A2A]";
    case OpKind::residual:
      return "add";
    case OpKind::activation:
      return "act";
    case OpKind::tp_all_gather:
      return "[AG]";
    case OpKind::tp_reduce_scatter:
      return "[RS]";
    case OpKind::tp_all_reduce:
      return "[AR]";
    case OpKind::tp_exchange:
      return "[x]";
    case OpKind::cp_exchange:
      return "[ring]";
    case OpKind::reduce_chunks:
      return "sum";
    default:
      return std::string(row(op).name);
  }
}

/// "norm [AG] qkv rope attn": operations in issue order, communication in brackets, 'd/'w marks the
/// two gradients.
inline std::string order(const Template& t) {
  std::string text;
  for (const TemplateOp& op : t.ops) {
    if (!text.empty()) text += ' ';
    text += brief(op.op);
    const bool gemm = op.op == OpKind::qkv_gemm || op.op == OpKind::proj_gemm ||
                      op.op == OpKind::fc1_gemm || op.op == OpKind::fc2_gemm ||
                      op.op == OpKind::output_gemm || op.op == OpKind::mtp_projection ||
                      (op.op >= OpKind::q_down_gemm && op.op <= OpKind::kv_up_gemm);
    if (gemm && op.pass == Pass::backward_data) text += "'d";
    if (gemm && op.pass == Pass::backward_weight) text += "'w";
  }
  return text;
}

/// Operation `which` (0 = first) of that kind; none when there are fewer.
inline int32_t find(const Template& t, OpKind op, int which = 0) {
  for (size_t i = 0; i < t.ops.size(); ++i)
    if (t.ops[i].op == op && which-- == 0) return static_cast<int32_t>(i);
  return TemplateOp::none;
}
inline int count(const Template& t, OpKind op) {
  return static_cast<int>(std::ranges::count(t.ops, op, &TemplateOp::op));
}
/// Operation `op` waits for `on`, directly.
inline bool waits(const Template& t, int32_t op, int32_t on) {
  return std::ranges::count(t.ops[static_cast<size_t>(op)].after, on) > 0;
}

}  // namespace stepsim::test
