#include <algorithm>

#include "sim/base/table.h"
#include "sim/config/overlap.h"

namespace stepsim {
namespace {

constexpr std::array<std::string_view, 4> method_names{"none", "ring_exchange", "pipeline", "bulk"};

/// Defaults of Bridge's RingExchange-, Pipeline- and BulkOverlapCfg.
TpOverlap defaults_of(TpMethod method, int tp) {
  if (method == TpMethod::ring_exchange) return {method, 1, tp, false, false};
  if (method == TpMethod::pipeline) return {method, 16, 4, false, true};
  return {method, 16, 1, false, false};
}

}  // namespace

std::string_view name(TpMethod method) { return method_names[static_cast<size_t>(method)]; }

TpOverlaps built_in_overlaps(int tp) {
  TpOverlaps overlaps;
  for (const TpGemmRow& row : tp_gemm_rows) {
    TpOverlap& overlap = overlaps[static_cast<size_t>(row.gemm)];
    overlap = defaults_of(row.built_in, tp);
    // Transformer Engine's own default keeps SMs free for every kernel that copies; Bridge's bulk
    // default does not.
    overlap.set_sm_margin = row.built_in != TpMethod::ring_exchange;
  }
  return overlaps;
}

void read_tp_overlaps(const Reader& section, int tp, TpOverlaps& overlaps) {
  for (const TpGemmRow& row : tp_gemm_rows) {
    const Reader gemm = section.child(std::string(row.name));
    if (!gemm.present()) continue;
    std::vector<std::string> allowed;
    for (const TpMethod method : row.allowed)
      if (method != TpMethod::none) allowed.emplace_back(name(method));
    const std::string chosen = gemm.choice("method", std::string(name(row.built_in)), allowed);
    const auto method = static_cast<TpMethod>(
        std::find(method_names.begin(), method_names.end(), chosen) - method_names.begin());
    TpOverlap overlap = defaults_of(method, tp);
    overlap.num_sm = gemm.integer("num_sm", overlap.num_sm, {1, 1024});
    overlap.num_splits = gemm.integer("num_splits", overlap.num_splits, {1, 64});
    overlap.aggregate = gemm.boolean("aggregate", false);
    overlap.set_sm_margin = gemm.boolean("set_sm_margin", overlap.set_sm_margin);
    if (gemm.boolean("atomic_gemm", false))
      gemm.fail("atomic_gemm", "asks for atomic GEMMs, which are not simulated in this release");
    if (overlap.aggregate && (method != TpMethod::ring_exchange || tp % 2 != 0))
      gemm.fail("aggregate", "needs the ring_exchange method and an even TP; got " + chosen +
                                 ", TP " + std::to_string(tp));
    for (const char* key : {"cga_size", "fp8_buf"}) gemm.use(key);
    gemm.refuse_unused();
    overlaps[static_cast<size_t>(row.gemm)] = overlap;
  }
  section.refuse_unused();
}

}  // namespace stepsim
