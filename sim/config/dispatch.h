// How tokens reach the ranks of their experts: Megatron-Core's dispatchers
// (moe_token_dispatcher_type, moe_flex_dispatcher_backend), and what their kernels make of a GPU's
// links.
#pragma once

#include <array>
#include <string_view>

#include "sim/base/units.h"

namespace stepsim {

class Reader;

/// The first two are NCCL collectives; the others are kernels of their own.
enum class Dispatcher { allgather, alltoall, deepep, hybridep, deepep_v2, deepep_low_latency };
inline constexpr int dispatcher_count = 6;

/// One way to move tokens.
struct DispatcherRow {
  Dispatcher dispatcher;
  std::string_view name, description;
  int sms;  ///< its kernels hold when nobody says; 0: NCCL's channels
};
inline constexpr std::array<DispatcherRow, dispatcher_count> dispatcher_rows{{
    {Dispatcher::allgather, "allgather", "every token to every rank", 0},
    {Dispatcher::alltoall, "alltoall", "one copy of a token to each of its experts", 0},
    {Dispatcher::deepep, "deepep", "one copy a rank, over the network one a domain (DeepEP V1)",
     20},
    {Dispatcher::hybridep, "hybridep", "the same by TMA copies with few SMs (Hybrid-EP)", 16},
    {Dispatcher::deepep_v2, "deepep_v2", "the same over NCCL's device-side network (DeepEP V2)",
     24},
    {Dispatcher::deepep_low_latency, "deepep_low_latency",
     "one copy an expert, straight to its rank (DeepEP's decoding kernels)", 24},
}};
constexpr const DispatcherRow& row_of(Dispatcher dispatcher) {
  return dispatcher_rows[static_cast<size_t>(dispatcher)];
}
constexpr bool has_own_kernel(Dispatcher dispatcher) { return row_of(dispatcher).sms > 0; }

/// What a dispatcher's kernels sustain on one GPU. A vector is one token's elements.
struct DispatchRates {
  double nvlink_efficiency = 0.6;  ///< of the NVLink port, of what other ranks send
  double network_share = 0.93;     ///< of the rate that NCCL's rings reach on a NIC
  BytesPerSecond sm_rate;    ///< of one SM while it moves a vector, the own share too; 0: no limit
  Seconds vector;            ///< time of one SM on a vector, whatever its size
  double forward_share = 1;  ///< of an SM's rate where vectors arrive over the network
  double combine_share = 1;  ///< of an SM's rate where vectors are added up
  int crowd = 0;             ///< ranks of a domain up to which it adds up at full speed; 0: any
  double crowded_share = 1;  ///< of that speed among more of them
  Seconds latency, peer;     ///< before the first byte; for each other rank of the domain
};

/// Typical figures of a dispatcher's kernels: those of the GPU they were measured on.
DispatchRates typical_rates(Dispatcher dispatcher);
/// The section `dispatch` of a GPU; typical figures for what it does not say.
std::array<DispatchRates, dispatcher_count> read_dispatch(const Reader& config);

}  // namespace stepsim
