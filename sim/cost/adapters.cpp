#include "sim/cost/adapters.h"

namespace stepsim {

namespace {

struct Adapted {
  Gemm base;
  bool column;
  bool keeps_input = true;  ///< nobody else does
};

/// Modules of the layer that have an adapter, as they are registered.
std::vector<Adapted> adapted(const Scenario& s, const LayerSizes& z, LayerShape shape, bool mlp) {
  const Adapters& a = s.adapters;
  std::vector<Adapted> list;
  if (shape.mixer == Mixer::attention) {
    Gemm proj = z.proj();
    if (s.model.mla.present()) proj.k = z.heads * static_cast<double>(s.model.mla.v_head_dim);
    // Flash attention keeps its output itself.
    if (a.proj) list.push_back({proj, false, false});
    if (a.qkv) list.push_back({z.qkv(), true});
  }
  if (shape.feed_forward == FeedForward::dense && mlp) {
    if (a.fc1) list.push_back({z.fc1(), true});
    if (a.fc2) list.push_back({z.fc2(), false});
  }
  return list;
}

}  // namespace

AdapterSizes column_adapter(const Gemm& base, int rank, int tp) {
  const double r = rank;
  return {{base.m, r / tp, base.k}, {base.m, base.n, r}};
}

AdapterSizes row_adapter(const Gemm& base, int rank, int tp) {
  const double r = rank;
  return {{base.m, r, base.k}, {base.m, base.n / tp, r}};
}

std::vector<ParameterTensor> adapter_parameters(const Scenario& s, LayerShape shape) {
  std::vector<ParameterTensor> tensors;
  for (const Adapted& m : adapted(s, layer_sizes(s), shape, true)) {
    const AdapterSizes sizes =
        (m.column ? column_adapter : row_adapter)(m.base, s.adapters.rank, s.parallel.tp);
    for (const Gemm& g : {sizes.in, sizes.out})
      tensors.push_back({.elements = static_cast<int64_t>(g.n * g.k)});
  }
  return tensors;
}

double adapter_activation_bytes(const Scenario& s, const LayerSizes& z, LayerShape shape,
                                bool mlp) {
  double bytes = 0;
  for (const Adapted& m : adapted(s, z, shape, mlp))
    bytes += z.tokens * ((m.keeps_input ? m.base.k : 0) + s.adapters.rank) * 2;
  return bytes;
}

}  // namespace stepsim
