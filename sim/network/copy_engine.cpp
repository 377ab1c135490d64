// Copy engines move an all-gather or all-to-all inside an NVLink domain without any SM
// (NCCL_CTA_POLICY=2; NCCL src/ce_coll.cc), and kernels over symmetric windows read and write their
// peers' buffers with few SMs (src/sym_kernels.cc).
#include <algorithm>

#include "sim/network/nccl.h"

namespace stepsim {
namespace {

constexpr int copy_engine_version = 22800;
/// A copy per peer is started by the host: a second start-up beside the collective's.
constexpr double copy_engine_starts = 2;

/// Start of a symmetric kernel over NCCL's own (src/sym_kernels.cc: 7.8 us on Hopper, 13 on
/// Blackwell, against 25-36 us for a ring's kernel).
constexpr double symmetric_start = 0.5;
/// Blocks of all members together that saturate a multicast (src/sym_kernels.cc).
int multicast_blocks(const Cluster& cluster) {
  return cluster.device.architecture == "blackwell" ? 32 : 16;
}
/// Blocks of a kernel without multicast.
constexpr int plain_blocks = 8;

}  // namespace

bool copy_engine_serves(Collective op, const GroupPlacement& group, const Cluster& cluster) {
  return cluster.nccl.zero_ctas && group.domains == 1 &&
         (cluster.nccl.version == 0 || cluster.nccl.version >= copy_engine_version) &&
         (op == Collective::all_gather || op == Collective::all_to_all);
}

CollectiveCost copy_engine_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                                const Cluster& cluster, Protocol protocol) {
  CollectiveCost cost;
  const double n = group.size;
  cost.latency = copy_engine_starts * start_up(cluster) + cluster.device.nvlink_latency;
  cost.wire_bytes = (n - 1) / n * bytes;
  const Seconds transfer = ramped(cost.wire_bytes, cluster.device.nvlink_ramp, nvlink_bus(cluster));
  cost.duration = cost.latency + transfer;
  if (transfer > Seconds{}) cost.nvlink_rate = cost.wire_bytes / transfer;
  occupy(cost, protocol, 0, operands(op));
  cost.protocol = {};
  return cost;
}

Plan copy_engine_plan(Collective op, const GroupPlacement& group) { return direct_plan(op, group); }

bool symmetric_serves(Collective op, const GroupPlacement& group, const Cluster& cluster) {
  if (group.domains > 1 || cluster.device.nvlink_bandwidth <= BytesPerSecond{}) return false;
  return op == Collective::all_gather || op == Collective::reduce_scatter ||
         (op == Collective::all_reduce && cluster.device.nvls_efficiency > 0);
}

CollectiveCost symmetric_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                              const Cluster& cluster, Protocol protocol) {
  CollectiveCost cost;
  const double n = group.size;
  cost.latency = symmetric_start * (start_up(cluster) + cluster.device.nvlink_latency);
  const bool multicast = op == Collective::all_reduce;
  cost.wire_bytes = (multicast ? n + 1 : n - 1) / n * bytes;
  const Seconds transfer =
      multicast ? nvls_transfer(bytes, group, cluster)
                : ramped(cost.wire_bytes, cluster.device.nvlink_ramp, nvlink_bus(cluster));
  cost.duration = cost.latency + transfer;
  if (transfer > Seconds{}) cost.nvlink_rate = cost.wire_bytes / transfer;
  const int blocks =
      multicast ? (multicast_blocks(cluster) + group.size - 1) / group.size : plain_blocks;
  occupy(cost, protocol, blocks, multicast ? 2 : operands(op));
  return cost;
}

Plan symmetric_plan(Collective op, const GroupPlacement& group) {
  return op == Collective::all_reduce ? nvls_plan(op, group) : direct_plan(op, group);
}

}  // namespace stepsim
