#include "sim/config/dispatch.h"

#include "sim/config/reader.h"

namespace stepsim {
namespace {

constexpr double smallest_dispatch_share = 0.01;

}  // namespace

// DeepEP and Hybrid-EP on B200 and H100: deepseek-ai/DeepEP @ 4ca41c3e (hybrid-ep)
// docs/README_Hybrid-EP.md, DeepEP's network: deepseek-ai/DeepEP @ dd758caf README.md and
// docs/legacy.md, deepseek-ai/DeepEP issue 493 (tests/published/dispatch.csv). What is one figure
// here was one within 10 % on all of them. Among 24 GB200 DeepEP's combine falls to 0.43-0.47 of
// what it reaches among 16, on 16 to 32 SMs alike; 190 GB/s among 32 on 24 SMs agree
// (NVIDIA/Megatron-LM docs/discussions/deepseek-v3-gb200-optimization).
DispatchRates typical_rates(Dispatcher dispatcher) {
  DispatchRates rates;
  switch (dispatcher) {
    case Dispatcher::deepep:
      rates = {.nvlink_efficiency = 0.6,
               .network_share = 0.93,
               .sm_rate = 39.0_GBps,
               .vector = 0.3_us,
               .forward_share = 0.3,
               .combine_share = 0.86,
               .crowd = 16,
               .crowded_share = 0.45,
               .latency = 10.0_us,
               .peer = 2.0_us};
      break;
    case Dispatcher::hybridep:
      rates = {.nvlink_efficiency = 0.78,
               .network_share = 0.92,
               .sm_rate = 48.0_GBps,
               .vector = 0.0_us,
               .forward_share = 0.75,
               .combine_share = 0.9,
               .latency = 10.0_us,
               .peer = 2.3_us};
      break;
    case Dispatcher::deepep_v2:
      rates = {.nvlink_efficiency = 0.71,
               .network_share = 0.93,
               .sm_rate = 28.0_GBps,
               .vector = 0.0_us,
               .forward_share = 1,
               .combine_share = 1,
               .latency = 30.0_us,
               .peer = 0.0_us};
      break;
    case Dispatcher::deepep_low_latency:
      rates = {.nvlink_efficiency = 0.7,
               .network_share = 0.95,
               .sm_rate = {},
               .vector = 0.0_us,
               .forward_share = 1,
               .combine_share = 1,
               .latency = 30.0_us,
               .peer = 0.0_us};
      break;
    default:
      break;
  }
  return rates;
}

std::array<DispatchRates, dispatcher_count> read_dispatch(const Reader& config) {
  std::array<DispatchRates, dispatcher_count> all;
  for (const DispatcherRow& row : dispatcher_rows) {
    DispatchRates& rates = all[static_cast<size_t>(row.dispatcher)];
    rates = typical_rates(row.dispatcher);
    if (!has_own_kernel(row.dispatcher)) continue;
    const Reader from = config.child(std::string(row.name));
    if (!from.present()) continue;
    const auto share = [&](const char* key, double& into) {
      into = from.number(key, into, smallest_dispatch_share, 1);
    };
    share("nvlink_efficiency", rates.nvlink_efficiency);
    share("network_share", rates.network_share);
    share("forward_share", rates.forward_share);
    share("combine_share", rates.combine_share);
    share("crowded_share", rates.crowded_share);
    rates.crowd = from.integer("crowd", rates.crowd, {0, 1 << 20});
    rates.sm_rate = {from.quantity("sm_rate", Dimension::bytes_per_second, rates.sm_rate.value)};
    rates.vector = {from.quantity("vector", Dimension::time, rates.vector.value)};
    rates.latency = {from.quantity("latency", Dimension::time, rates.latency.value)};
    rates.peer = {from.quantity("peer", Dimension::time, rates.peer.value)};
    for (const char* key : {"source", "sources", "notes", "unknown"}) from.use(key);
    from.refuse_unused();
  }
  for (const char* key : {"source", "sources", "notes", "unknown"}) config.use(key);
  config.refuse_unused();
  return all;
}

}  // namespace stepsim
