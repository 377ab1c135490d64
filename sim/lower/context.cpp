// Core attention, and how context-parallel ranks exchange what it needs (Transformer Engine
// pytorch/attention/dot_product_attention/context_parallel.py): keys and values round a ring, under
// the steps; gathered whole, exposed; or heads against tokens by all-to-all, alone or inside a
// ring.
#include "sim/lower/context.h"

#include <array>

#include "sim/cost/quantize.h"

namespace stepsim {

namespace {
constexpr double ring_correction_bytes =
    10;                        ///< merge one ring step's output: fp32 read and write, 16-bit read
constexpr double element = 2;  ///< q, k, v, the output and their gradients are 16 bit
constexpr double reorder_bytes = 4;  ///< read and write an element in its place in another order
constexpr int gathered_pieces = 2;   ///< of the sequence, an early and a late one (causal balance)
}  // namespace

CoreAttention::CoreAttention(const Scenario& scenario, const LayerGroups& groups,
                             const KernelModel& kernels, const LayerSizes& sizes, ContextKind kind,
                             bool window, bool fp8)
    : s_(scenario),
      groups_(groups),
      kernels_(kernels),
      z_(sizes),
      kind_(kind),
      window_(window),
      fp8_(fp8) {
  const bool latent = s_.model.mla.present();
  h_ = {.queries = z_.heads,
        .keys = latent ? z_.heads : z_.kv_features / z_.head_dim,
        .key_dim = z_.head_dim,
        .value_dim = latent ? static_cast<double>(s_.model.mla.v_head_dim) : z_.head_dim};
  const int cp = s_.parallel.cp, inner = s_.parallel.cp_inner;
  switch (kind) {
    case ContextKind::p2p:
      ring_ = {cp, groups_.cp, Meeting::cp};
      break;
    case ContextKind::all_gather:
      break;
    case ContextKind::a2a:
      exchange_ = {cp, groups_.cp, Meeting::cp};
      break;
    case ContextKind::a2a_p2p:
      exchange_ = {inner, groups_.cp_inner, Meeting::cp_inner};
      ring_ = inner > 1 ? Part{cp / inner, groups_.cp_outer, Meeting::cp_outer}
                        : Part{cp, groups_.cp, Meeting::cp};
  }
}

/// This rank's share: all of its queries and heads, whatever was exchanged for them.
Attention CoreAttention::share() const {
  const double batch = s_.batch.sequences(), sequence = s_.batch.length(),
               window = window_ ? static_cast<double>(s_.model.window.tokens) : 0;
  const int exchange = exchange_.ranks;
  const double queries = sequence * exchange / s_.parallel.cp, own = h_.queries / exchange;
  const Dtype dtype =
      fp8_ ? attention_dtype(s_.precision, s_.cluster.device) : s_.precision.parameters;
  if (window_ && s_.model.window.chunked && window < sequence)
    return causal_attention(batch * queries / window, own, h_.key_dim, window, window, dtype, 0,
                            h_.value_dim);
  return causal_attention(batch, own, h_.key_dim, queries, sequence, dtype, window, h_.value_dim);
}

void CoreAttention::ring_forward(TemplateWriter& w, const Kernel& whole) const {
  const Kernel correction = kernels_.traffic({z_.tokens * h_.out() * ring_correction_bytes});
  const CollectiveCost hop = collective_cost(
      Collective::send_recv, {z_.tokens * (h_.k() + h_.v()) * element}, ring_.group, s_.cluster);
  const int32_t source = w.last_compute();
  int32_t arrived = TemplateOp::none;
  for (int i = 0; i < ring_.ranks; ++i) {
    if (arrived != TemplateOp::none) w.wait(arrived);
    if (i + 1 < ring_.ranks) {
      arrived = w.communicate_after(arrived == TemplateOp::none ? source : arrived,
                                    OpKind::cp_exchange, Stream::cp, hop, i);
      w.among(ring_.meeting);
    }
    Kernel step = whole / ring_.ranks;
    step.blocks = whole.blocks;  // all queries, against a part of the keys
    w.compute(OpKind::attention, i > 0 ? step + correction : step, i);
  }
}

void CoreAttention::ring_backward(TemplateWriter& w, const Kernel& whole) const {
  // Hop i runs beside step i. Hop 0 carries keys and values, the middle ones also the gradients
  // that step i-1 made, the last one gradients only; step i works on what hop i-1 brought.
  const Bytes block{z_.tokens * (h_.k() + h_.v()) * element};
  const auto hop = [&](double blocks) {
    return collective_cost(Collective::send_recv, block * blocks, ring_.group, s_.cluster);
  };
  int32_t arrived = TemplateOp::none;
  for (int i = 0; i < ring_.ranks; ++i) {
    const double blocks = i == 0 || i + 1 == ring_.ranks ? 1 : 2;
    const int32_t next = w.communicate(OpKind::cp_exchange, Stream::cp, hop(blocks), i);
    w.among(ring_.meeting);
    if (arrived != TemplateOp::none) w.wait(arrived);
    Kernel step = whole / ring_.ranks;
    step.blocks = whole.blocks;
    w.compute(OpKind::attention, step, i);
    arrived = next;
  }
  w.wait(arrived);
}

/// Keys and values of every rank, then attention in two pieces; backward gathers them again and
/// scatters the sums of their gradients.
void CoreAttention::gathered(TemplateWriter& w, const Kernel& whole, bool backward) const {
  const double all = z_.tokens * s_.parallel.cp;
  const auto both = [&](OpKind op, Collective collective) {
    std::array<int32_t, 2> sent{};
    for (size_t i = 0; i < sent.size(); ++i)
      sent[i] =
          w.communicate(op, Stream::cp,
                        collective_cost(collective, {all * (i == 0 ? h_.k() : h_.v()) * element},
                                        groups_.cp, s_.cluster),
                        static_cast<int>(i));
    for (int32_t op_sent : sent) w.wait(op_sent);
  };
  // Ranks hold an early and a late slice: what was gathered is put in the order of the sequence.
  const Kernel reorder = kernels_.streaming({all * (h_.k() + h_.v()) * reorder_bytes});
  both(OpKind::cp_all_gather, Collective::all_gather);
  w.compute(OpKind::permute, reorder);
  for (int i = 0; i < gathered_pieces; ++i)
    w.compute(OpKind::attention, whole / gathered_pieces, i);
  if (!backward) return;
  w.compute(OpKind::permute, reorder);
  both(OpKind::cp_reduce_scatter, Collective::reduce_scatter);
}

/// Each tensor is put in order, sent, and put in order again; one is sent while the next is made
/// ready.
void CoreAttention::exchange_heads(TemplateWriter& w,
                                   std::initializer_list<double> features) const {
  if (exchange_.ranks == 1) return;
  std::array<int32_t, 3> sent{};
  std::array<Kernel, 3> orders{};
  size_t count = 0;
  for (double f : features) {
    const double elements = z_.tokens * f;
    orders[count] = kernels_.streaming({elements * reorder_bytes});
    w.compute(OpKind::permute, orders[count]);
    sent[count] = w.communicate(
        OpKind::cp_all_to_all, Stream::cp,
        collective_cost(Collective::all_to_all, {elements * element}, exchange_.group, s_.cluster),
        static_cast<int>(count));
    w.among(exchange_.meeting);
    ++count;
  }
  for (size_t i = 0; i < count; ++i) {
    w.wait(sent[i]);
    w.compute(OpKind::permute, orders[i]);
  }
}

void CoreAttention::cast(TemplateWriter& w, double features) const {
  const double bytes = fp8_ ? attention_cast_bytes(s_.precision, s_.cluster.device) : 0;
  if (bytes > 0) w.compute(OpKind::quantize, kernels_.streaming({z_.tokens * features * bytes}));
}

void CoreAttention::forward(TemplateWriter& w) const {
  cast(w, h_.q() + h_.k() + h_.v());
  const Kernel whole = kernels_.attention_forward(share());
  if (kind_ == ContextKind::all_gather) return gathered(w, whole, false);
  exchange_heads(w, {h_.q(), h_.k(), h_.v()});
  ring_.ranks > 1 ? ring_forward(w, whole) : void(w.compute(OpKind::attention, whole));
  exchange_heads(w, {h_.out()});
}

void CoreAttention::backward(TemplateWriter& w) const {
  cast(w, h_.out());
  const Kernel whole = kernels_.attention_backward(share());
  if (kind_ == ContextKind::all_gather) return gathered(w, whole, true);
  exchange_heads(w, {h_.out()});
  ring_.ranks > 1 ? ring_backward(w, whole) : void(w.compute(OpKind::attention, whole));
  exchange_heads(w, {h_.q(), h_.k(), h_.v()});
}

}  // namespace stepsim
