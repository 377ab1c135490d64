// Linear modules with their tensor-parallel collectives: plain (exposed), ring_exchange, pipeline
// and bulk. Timing of the methods: Transformer Engine common/comm_gemm_overlap; what is exposed
// without userbuffers: pytorch/module/layernorm_linear.py and linear.py.
#include "sim/lower/linear.h"

#include <algorithm>

#include "sim/lower/adapter.h"

namespace stepsim {

namespace {
constexpr double output_bytes = 2;  ///< GEMM outputs and reduce-scattered tensors are 16 bit
}

CollectiveCost LayerTemplates::tp_cost(Collective op, double bytes) const {
  return collective_cost(op, {bytes}, groups_.tp, s_.cluster);
}

CollectiveCost LayerTemplates::userbuffers_cost(double bytes, const TpOverlap& method) const {
  // Every rank reads or writes its peers' shards directly: no rings, no start-up of a library
  // kernel.
  const double tp = s_.parallel.tp;
  CollectiveCost cost = tp_cost(Collective::peer_copy, bytes * (tp - 1) / tp);
  cost.sms = method.num_sm;  // rings use the copy engines, these kernels do not
  return cost;
}

Kernel LayerTemplates::weight_gradient(const Gemm& forward, Dtype dtype, int sms) const {
  // The epilogue reads and writes the main gradient of every weight; without fusion the 16-bit
  // gradient is written and then added by a second pass.
  const double weights = forward.n * forward.k;
  const double main_grad = s_.precision.grad_reduce_in_fp32 ? 4 : 2;
  const double bytes = s_.gradient_accumulation_fusion ? 2 * main_grad : 4 + 2 * main_grad;
  return kernels_.gemm(wgrad(forward), dtype, sms) + kernels_.traffic({weights * bytes});
}

void LayerTemplates::ring_gather(TemplateWriter& w, OpKind op, const Gemm& gemm, Dtype dtype,
                                 double element_bytes, bool aggregate) const {
  // T chunks of tokens; chunk i+1 travels while the GEMM works on chunk i. Chunks alternate over
  // several compute streams, so their waves interleave and a chunk costs its share of the whole
  // GEMM.
  const int tp = s_.parallel.tp;
  const int steps = aggregate && tp > 2 ? tp / 2 : tp;
  const Kernel chunk = kernels_.gemm(gemm, dtype) / steps;
  const double message = gemm.m * gemm.k * element_bytes / tp;
  const int32_t source = w.last_compute();
  int32_t arrived = TemplateOp::none;
  if (steps != tp) {
    arrived = w.communicate_after(source, OpKind::tp_exchange, Stream::tp,
                                  tp_cost(Collective::peer_copy, message));
  }
  for (int i = 0; i < steps; ++i) {
    if (arrived != TemplateOp::none) w.wait(arrived);
    if (i + 1 < steps) {
      const int ranks_a_chunk = tp / steps;
      const double bytes = message * ranks_a_chunk;
      arrived =
          w.communicate_after(arrived == TemplateOp::none ? source : arrived, OpKind::tp_exchange,
                              Stream::tp, tp_cost(Collective::peer_copy, bytes), i + 1);
    }
    w.compute(op, chunk, i);
  }
}

void LayerTemplates::column_forward(TemplateWriter& w, const Linear& l, bool fp8) const {
  const Gemm& g = l.gemm;
  const TpOverlap& method = overlap(l.fprop);
  if (gathers() && method.method == TpMethod::ring_exchange) {
    ring_gather(w, l.op, g, dtype(fp8), input_bytes(fp8), method.aggregate);
  } else {
    if (gathers())
      w.exposed(OpKind::tp_all_gather, Stream::tp,
                tp_cost(Collective::all_gather, g.m * g.k * input_bytes(fp8)));
    w.compute(l.op, kernels_.gemm(g, dtype(fp8)));
  }
  const AdapterBlock adapter(s_, groups_, kernels_);
  if (adapter.beside(l.op)) adapter.column_forward(w, g);
}

void LayerTemplates::Linear::pieces(const LayerTemplates& layer, TemplateWriter& w,
                                    const Gemm& product, Dtype dtype,
                                    const TpOverlap& method) const {
  const int splits = std::max(method.num_splits, 1);
  const int sms = method.set_sm_margin ? layer.s_.cluster.device.sms - method.num_sm : 0;
  const Kernel piece = layer.kernels_.gemm(product, dtype, sms) / splits;
  const CollectiveCost cost =
      layer.userbuffers_cost(product.m * product.n * output_bytes / splits, method);
  for (int i = 0; i < splits; ++i) {
    w.compute(op, piece, i);
    const int32_t scattered = w.communicate(OpKind::tp_reduce_scatter, Stream::tp, cost, i);
    if (i + 1 == splits) w.wait(scattered);
  }
}

void LayerTemplates::row_forward(TemplateWriter& w, const Linear& l, bool fp8) const {
  const Gemm& g = l.gemm;
  const TpOverlap& method = overlap(l.fprop);
  const int tp = s_.parallel.tp;
  const double bytes = g.m * g.n * output_bytes;
  const int sms = method.set_sm_margin ? s_.cluster.device.sms - method.num_sm : 0;
  if (!gathers() || one_sum()) {
    w.compute(l.op, kernels_.gemm(g, dtype(fp8)));
    if (tp > 1 && !one_sum())
      w.exposed(OpKind::tp_all_reduce, Stream::tp, tp_cost(Collective::all_reduce, bytes));
  } else if (method.method == TpMethod::pipeline) {
    l.pieces(*this, w, g, dtype(fp8), method);
  } else if (method.method == TpMethod::ring_exchange) {
    // Each finished chunk of tokens goes straight to its owner, which sums the T partial results
    // at the end.
    const Kernel gemm = kernels_.gemm(g, dtype(fp8), sms);
    int32_t sent = TemplateOp::none;
    for (int i = 0; i < tp; ++i) {
      w.compute(l.op, gemm / tp, i);
      if (i + 1 < tp)
        sent = w.communicate(OpKind::tp_exchange, Stream::tp,
                             tp_cost(Collective::peer_copy, bytes / tp), i);
    }
    // The own chunk is last and stays: only the sum waits for the others.
    w.wait(sent);
    w.compute(OpKind::reduce_chunks, kernels_.streaming({bytes / tp * (tp + 1)}));
  } else {
    w.compute(l.op, kernels_.gemm(g, dtype(fp8), sms));
    w.exposed(OpKind::tp_reduce_scatter, Stream::tp, tp_cost(Collective::reduce_scatter, bytes));
  }
  const AdapterBlock adapter(s_, groups_, kernels_);
  if (adapter.beside(l.op)) adapter.row_forward(w, g);
}

void LayerTemplates::column_backward(TemplateWriter& w, const Linear& l, bool fp8) const {
  const Gemm& g = l.gemm;
  const AdapterBlock adapter(s_, groups_, kernels_);
  if (adapter.beside(l.op)) adapter.column_backward(w, g);
  const double input = g.m * g.k;
  const auto sms_left = [&](TpGemm gemm) {
    const TpOverlap& o = overlap(gemm);
    return o.method == TpMethod::bulk && o.set_sm_margin ? s_.cluster.device.sms - o.num_sm : 0;
  };
  // The saved, sharded input is gathered again beside the data gradient; its result is reduced
  // beside the weight gradient. Bulk userbuffers and the plain asynchronous collectives have the
  // same shape. A frozen weight needs no input.
  w.set_pass(Pass::backward_data);
  int32_t gathered = TemplateOp::none;
  const auto bulk = [&](TpGemm gemm) { return overlap(gemm).method == TpMethod::bulk; };
  if (gathers() && !w.frozen()) {
    const double bytes = input * input_bytes(fp8);
    gathered = w.communicate(OpKind::tp_all_gather, Stream::tp,
                             bulk(l.dgrad) ? userbuffers_cost(bytes, overlap(l.dgrad))
                                           : tp_cost(Collective::all_gather, bytes));
  }
  int32_t reduced = TemplateOp::none;
  if (gathers() && overlap(l.dgrad).method == TpMethod::pipeline) {
    l.pieces(*this, w, dgrad(g), dtype(fp8), overlap(l.dgrad));
  } else {
    const int32_t data = w.compute(l.op, kernels_.gemm(dgrad(g), dtype(fp8), sms_left(l.dgrad)));
    if (gathers())
      reduced = w.communicate_after(
          data, OpKind::tp_reduce_scatter, Stream::tp,
          bulk(l.wgrad) && !w.frozen() ? userbuffers_cost(input * output_bytes, overlap(l.wgrad))
                                       : tp_cost(Collective::reduce_scatter, input * output_bytes));
    else if (s_.parallel.tp > 1)
      reduced = w.communicate_after(data, OpKind::tp_all_reduce, Stream::tp,
                                    tp_cost(Collective::all_reduce, input * output_bytes));
  }
  if (gathered != TemplateOp::none) w.wait(gathered);
  w.weight(l.op, weight_gradient(g, dtype(fp8), sms_left(l.wgrad)));
  w.set_pass(Pass::backward);
  if (reduced != TemplateOp::none) w.wait(reduced);
}

void LayerTemplates::row_backward(TemplateWriter& w, const Linear& l, bool fp8) const {
  const Gemm& g = l.gemm;
  const TpOverlap& method = overlap(l.dgrad);
  const bool gathered = gathers() && !one_sum();
  w.set_pass(Pass::backward);
  const AdapterBlock adapter(s_, groups_, kernels_);
  if (adapter.beside(l.op)) adapter.row_backward(w, g);
  if (fp8) quantize(w, gathered ? z_.local_tokens * g.n : g.m * g.n, Operand::gradient);
  w.set_pass(Pass::backward_data);
  if (gathered && method.method == TpMethod::ring_exchange) {
    ring_gather(w, l.op, dgrad(g), dtype(fp8), input_bytes(fp8), method.aggregate);
  } else {
    if (gathered)
      w.exposed(OpKind::tp_all_gather, Stream::tp,
                tp_cost(Collective::all_gather, g.m * g.n * input_bytes(fp8)));
    w.compute(l.op, kernels_.gemm(dgrad(g), dtype(fp8)));
  }
  w.weight(l.op, weight_gradient(g, dtype(fp8)));
  w.set_pass(Pass::backward);
}

}  // namespace stepsim
