#include "sim/lower/adapter.h"

#include "sim/lower/elementwise.h"

namespace stepsim {

namespace {
constexpr double adapter_element = 2;
}

bool AdapterBlock::beside(OpKind module) const {
  const Adapters& a = s_.adapters;
  switch (module) {
    case OpKind::qkv_gemm:
      return a.qkv;
    case OpKind::proj_gemm:
      return a.proj;
    case OpKind::fc1_gemm:
      return a.fc1;
    case OpKind::fc2_gemm:
      return a.fc2;
    default:
      return false;
  }
}

CollectiveCost AdapterBlock::tp(Collective op, double bytes) const {
  return collective_cost(op, {bytes}, groups_.tp, s_.cluster);
}

void AdapterBlock::product(TemplateWriter& w, const Gemm& gemm, int part) const {
  w.compute(OpKind::adapter_gemm, kernels_.gemm(gemm, s_.precision.parameters), part);
}

/// By alpha / dim, forward or backward.
void AdapterBlock::scale(TemplateWriter& w, double tokens) const {
  w.compute(OpKind::adapter_gemm,
            kernels_.streaming({tokens * s_.adapters.rank * 2 * adapter_element}), 1);
}

void AdapterBlock::add(TemplateWriter& w, double elements) const {
  w.compute(OpKind::residual, kernels_.streaming({elements * residual_bytes}));
}

void AdapterBlock::drop(TemplateWriter& w, double elements) const {
  if (s_.adapters.dropout > 0)
    w.compute(OpKind::residual,
              kernels_.streaming({elements * (2 * adapter_element + dropout_mask_bytes)}));
}

void AdapterBlock::weight(TemplateWriter& w, const Gemm& forward) const {
  const double main_grad = s_.precision.gradient_bytes();
  const double bytes = s_.gradient_accumulation_fusion ? 2 * main_grad : 4 + 2 * main_grad;
  w.freeze(false);
  w.weight(OpKind::adapter_gemm, kernels_.gemm(wgrad(forward), s_.precision.parameters) +
                                     kernels_.traffic({forward.n * forward.k * bytes}));
  w.freeze(true);
}

/// The second product is column-parallel: its input's gradient is summed over TP beside its weight
/// gradient (Megatron-Core tensor_parallel/layers.py, LinearWithGradAccumulation).
void AdapterBlock::out_backward(TemplateWriter& w, const Gemm& out) const {
  w.set_pass(Pass::backward_data);
  product(w, dgrad(out), 2);
  int32_t summed = TemplateOp::none;
  if (s_.parallel.tp > 1)
    summed = w.communicate(OpKind::tp_all_reduce, Stream::tp,
                           tp(Collective::all_reduce, out.m * out.k * adapter_element));
  weight(w, out);
  w.set_pass(Pass::backward);
  if (summed != TemplateOp::none) w.wait(summed);
  scale(w, out.m);
}

void AdapterBlock::column_forward(TemplateWriter& w, const Gemm& base) const {
  const AdapterSizes a = column_adapter(base, s_.adapters.rank, s_.parallel.tp);
  drop(w, base.m * base.k / (sequence_parallel() ? s_.parallel.tp : 1));
  if (gathers_itself())
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp(Collective::all_gather, base.m * base.k * adapter_element));
  product(w, a.in, 0);
  if (s_.parallel.tp > 1)
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp(Collective::all_gather, base.m * s_.adapters.rank * adapter_element));
  scale(w, base.m);
  product(w, a.out, 2);
  add(w, base.m * base.n);
}

void AdapterBlock::column_backward(TemplateWriter& w, const Gemm& base) const {
  const AdapterSizes a = column_adapter(base, s_.adapters.rank, s_.parallel.tp);
  out_backward(w, a.out);
  w.set_pass(Pass::backward_data);
  product(w, dgrad(a.in), 0);
  // Under sequence parallelism the gather's own backward scatters the sum: the adapter's, or that
  // of the module, to whose gradient it is added before.
  int32_t summed = TemplateOp::none;
  if (s_.parallel.tp > 1 && !sequence_parallel())
    summed = w.communicate(OpKind::tp_all_reduce, Stream::tp,
                           tp(Collective::all_reduce, base.m * base.k * adapter_element));
  weight(w, a.in);
  w.set_pass(Pass::backward);
  if (summed != TemplateOp::none) w.wait(summed);
  if (gathers_itself())
    w.exposed(OpKind::tp_reduce_scatter, Stream::tp,
              tp(Collective::reduce_scatter, base.m * base.k * adapter_element));
  const double elements = base.m * base.k / (gathers_itself() ? s_.parallel.tp : 1);
  drop(w, elements);
  add(w, elements);
}

void AdapterBlock::row_forward(TemplateWriter& w, const Gemm& base) const {
  const AdapterSizes a = row_adapter(base, s_.adapters.rank, s_.parallel.tp);
  drop(w, base.m * base.k);
  product(w, a.in, 0);
  if (s_.parallel.tp > 1)
    w.exposed(OpKind::tp_all_reduce, Stream::tp,
              tp(Collective::all_reduce, base.m * s_.adapters.rank * adapter_element));
  scale(w, base.m);
  product(w, a.out, 2);
  // Every rank gathers all features of all tokens, and under sequence parallelism cuts its own.
  if (s_.parallel.tp > 1)
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp(Collective::all_gather, base.m * base.n * adapter_element));
  add(w, base.m * base.n / (sequence_parallel() ? s_.parallel.tp : 1));
}

void AdapterBlock::row_backward(TemplateWriter& w, const Gemm& base) const {
  const AdapterSizes a = row_adapter(base, s_.adapters.rank, s_.parallel.tp);
  if (sequence_parallel())
    w.exposed(OpKind::tp_all_gather, Stream::tp,
              tp(Collective::all_gather, base.m * base.n * adapter_element));
  out_backward(w, a.out);
  w.set_pass(Pass::backward_data);
  product(w, dgrad(a.in), 0);
  weight(w, a.in);
  w.set_pass(Pass::backward);
  drop(w, base.m * base.k);
  add(w, base.m * base.k);
}

}  // namespace stepsim
