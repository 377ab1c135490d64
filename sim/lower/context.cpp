// Core attention, and how context-parallel ranks exchange what it needs (Transformer Engine
// pytorch/attention/dot_product_attention/context_parallel.py).
#include "sim/lower/linear.h"

namespace stepsim {

namespace {
constexpr double ring_correction_bytes =
    10;  ///< merge one ring step's output: fp32 read and write, 16-bit read
}  // namespace

/// Heads of one TP rank, and features of each.
struct LayerTemplates::Heads {
  double queries, keys;
  double key_dim, value_dim;

  double kv_features() const { return keys * (key_dim + value_dim); }
  double output_features() const { return queries * value_dim; }
};

LayerTemplates::Heads LayerTemplates::heads() const {
  const bool latent = s_.model.mla.present();
  return {.queries = z_.heads,
          .keys = latent ? z_.heads : z_.kv_features / z_.head_dim,
          .key_dim = z_.head_dim,
          .value_dim = latent ? static_cast<double>(s_.model.mla.v_head_dim) : z_.head_dim};
}

/// Attention of `queries` tokens with `heads` heads against the whole sequence.
Attention LayerTemplates::core_attention(const Heads& h, double heads, double queries) const {
  return causal_attention(static_cast<double>(s_.batch.micro), heads, h.key_dim, queries,
                          static_cast<double>(s_.batch.sequence), dtype(false), 0, h.value_dim);
}

void LayerTemplates::attention_forward(TemplateWriter& w, LayerKind) const {
  const Heads h = heads();
  const int cp = s_.parallel.cp;
  const Kernel whole = kernels_.attention_forward(
      core_attention(h, h.queries, static_cast<double>(s_.batch.sequence) / cp));
  if (cp == 1) {
    w.compute(OpKind::attention, whole);
    return;
  }
  const Bytes block{z_.tokens * h.kv_features() * 2},
      correction{z_.tokens * h.output_features() * ring_correction_bytes};
  const CollectiveCost hop = collective_cost(Collective::send_recv, block, groups_.cp, s_.cluster);
  const int32_t source = w.last_compute();
  int32_t arrived = TemplateOp::none;
  for (int i = 0; i < cp; ++i) {
    if (arrived != TemplateOp::none) w.wait(arrived);
    if (i + 1 < cp)
      arrived = w.communicate_after(arrived == TemplateOp::none ? source : arrived,
                                    OpKind::cp_exchange, Stream::cp, hop, i);
    Kernel step = whole / cp;
    step.blocks = whole.blocks;  // all queries, against a part of the keys
    w.compute(OpKind::attention, i > 0 ? step + kernels_.traffic(correction) : step, i);
  }
}

void LayerTemplates::attention_backward(TemplateWriter& w, LayerKind) const {
  const Heads h = heads();
  const int cp = s_.parallel.cp;
  const Kernel whole = kernels_.attention_backward(
      core_attention(h, h.queries, static_cast<double>(s_.batch.sequence) / cp));
  if (cp == 1) {
    w.compute(OpKind::attention, whole);
    return;
  }
  // Hop i runs beside step i. Hop 0 carries keys and values, the middle ones also the gradients
  // that step i-1 made, the last one gradients only; step i works on what hop i-1 brought.
  const Bytes block{z_.tokens * h.kv_features() * 2};
  const auto hop = [&](double blocks) {
    return collective_cost(Collective::send_recv, block * blocks, groups_.cp, s_.cluster);
  };
  int32_t arrived = TemplateOp::none;
  for (int i = 0; i < cp; ++i) {
    const double blocks = i == 0 || i + 1 == cp ? 1 : 2;
    const int32_t next = w.communicate(OpKind::cp_exchange, Stream::cp, hop(blocks), i);
    if (arrived != TemplateOp::none) w.wait(arrived);
    Kernel step = whole / cp;
    step.blocks = whole.blocks;
    w.compute(OpKind::attention, step, i);
    arrived = next;
  }
  w.wait(arrived);
}

}  // namespace stepsim
