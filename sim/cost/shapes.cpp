#include "sim/cost/shapes.h"

#include <cmath>

namespace stepsim {

Attention causal_attention(double batch, double heads, double head_dim, double queries, double keys,
                           Dtype dtype, double window, double value_dim) {
  const bool limited = window > 0 && window < keys;
  const double mean = limited ? window - window * (window - 1) / (2 * keys) : keys / 2;
  return {.batch = batch,
          .heads = heads,
          .head_dim = head_dim,
          .queries = queries,
          .keys = keys,
          .visible = mean / keys,
          .dtype = dtype,
          .value_dim = value_dim,
          .window = limited ? window : 0};
}

double padded_rows(double rows, Dtype dtype) {
  const bool blocks = dtype == Dtype::fp8_block || dtype == Dtype::mxfp8 || dtype == Dtype::nvfp4;
  const double multiple = blocks ? 32 : dtype == Dtype::fp8 ? 16 : 1;
  return std::ceil(rows / multiple) * multiple;
}

}  // namespace stepsim
