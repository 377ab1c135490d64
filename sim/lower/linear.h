// One linear module of a layer: its GEMM, its name and the overlap settings that concern it.
#pragma once

#include "sim/lower/layer.h"

namespace stepsim {

/// `dgrad` of a row-parallel module is its own gather; of a column-parallel one the bulk gather of
/// its input.
struct LayerTemplates::Linear {
  OpKind op;
  Gemm gemm;
  TpGemm fprop, dgrad;
  TpGemm wgrad = dgrad;  ///< of a column-parallel module: the bulk reduction of its data gradient

  /// `product` in pieces of tokens; each one's result is reduce-scattered under the next.
  void pieces(const LayerTemplates& layer, TemplateWriter& w, const Gemm& product, Dtype dtype,
              const TpOverlap& method) const;
};

}  // namespace stepsim
