// Measured dispatch and combine kernels: what their benchmarks move, and what they count.
//
// DeepEP and Hybrid-EP print bytes over time, where bytes are the vectors that a rank receives, its
// own too; between nodes, one vector a node that a token visits, its own node too (deepseek-ai/
// DeepEP tests/test_intranode.py, tests/test_internode.py, tests/test_hybrid_ep.py); of low-latency
// kernels, a copy an expert. FP8 comes with 4 bytes of scale for 128 elements.
#pragma once

#include <string>

#include "sim/network/dispatch.h"

namespace stepsim {

/// The setting of a benchmark; groups of experts are nodes there.
struct DispatchBenchmark {
  std::string dispatcher;  ///< empty: none
  double tokens = 0, hidden = 0;
  int top_k = 1, experts = 0, experts_per_rank = 0, groups_top_k = 0;
};

/// Is it "ep_dispatch", "ep_combine" or one of these with "_ll"?
bool is_dispatch(const std::string& op);

/// One row as the network sees it.
struct DispatchRow {
  Dispatcher dispatcher = Dispatcher::deepep;
  DispatchPass pass = DispatchPass::dispatch;
  DispatchShape shape;
  int sms = 0;    ///< "... 24 SMs" in `algo`; 0: not said
  Bytes counted;  ///< what the benchmark divides by the time
};
DispatchRow dispatch_row(const DispatchBenchmark& benchmark, const std::string& op,
                         const std::string& algo, const std::string& dtype,
                         const GroupPlacement& group);

}  // namespace stepsim
