#include "sim/lower/shard_collectives.h"

#include <algorithm>

namespace stepsim {

namespace {

/// SMs of NCCL's kernels on registered buffers without SHARP (Megatron-Core
/// distributed_data_parallel_config.py, nccl_ub).
int registered_sms(Collective kind, const GroupPlacement& g) {
  const bool reduces = kind != Collective::all_gather;
  if (g.domains < 2) return reduces ? 5 : 4;
  if (g.per_domain > 1) return 16;
  return reduces ? 4 : 1;
}

}  // namespace

TaskId ShardCollectives::collective(uint32_t device, const ShardGroupRow& row, Meeting meeting,
                                    OpKind op, Collective kind, double bytes, Label label,
                                    Seconds before) {
  label.op = op;
  CollectiveCost cost = collective_cost(kind, {bytes}, w_.placement(device, meeting), s_.cluster);
  if (s_.data_parallel.registered_buffers && cost.sms > 0)
    cost.sms = std::min(cost.sms, registered_sms(kind, w_.placement(device, meeting)));
  cost.latency = cost.latency + before;
  cost.duration = cost.duration + before;
  return w_.collective(device, meeting, row.stream, cost, label);
}

TaskId ShardCollectives::gather(uint32_t device, ShardGroup group, double bytes, Label label) {
  if (slice_size(s_.parallel, group) < 2) return no_task;
  const ShardGroupRow& row = shard_group_rows[static_cast<size_t>(group)];
  const Meeting meeting = s_.parallel.optimizer_instances > 1 ? row.inner : row.whole;
  return collective(device, row, meeting, row.all_gather, Collective::all_gather, bytes, label);
}

void ShardCollectives::gather_across(uint32_t device, ShardGroup group, double bytes, Label label) {
  const int slice = slice_size(s_.parallel, group);
  if (group_size(s_.parallel, group) == slice) return;
  const ShardGroupRow& row = shard_group_rows[static_cast<size_t>(group)];
  collective(device, row, row.outer, row.all_gather, Collective::all_gather, bytes / slice, label);
}

/// Megatron-Core distributed_data_parallel.py: gradients are divided by the ranks that saw other
/// tokens, DP x CP for experts too; averaging inside the collective leaves the experts' share.
bool ShardCollectives::scales(ShardGroup group) const {
  const int ranks = group_size(s_.parallel, ShardGroup::dense);
  return s_.data_parallel.average_in_collective ? group_size(s_.parallel, group) != ranks
                                                : ranks != 1;
}

TaskId ShardCollectives::reduce(uint32_t device, ShardGroup group, double elements, Reduction how,
                                Label label) {
  const ShardGroupRow& row = shard_group_rows[static_cast<size_t>(group)];
  const double bytes = elements * s_.precision.gradient_bytes();
  Seconds before;
  if (scales(group)) {
    const Kernel pass = kernels(device).streaming({bytes * 2});
    // Megatron-FSDP, gradient_reduce_preprocessing: NCCL multiplies fp32 gradients, the stream of
    // the reduction 16-bit ones before it. FSDP2 lets NCCL average.
    switch (s_.data_parallel.fully_sharded) {
      case FullySharded::none:
        label.op = OpKind::grad_scale;
        w_.kernel(device, pass, label);
        break;
      case FullySharded::megatron:
        if (!s_.precision.grad_reduce_in_fp32) before = pass.duration;
        break;
      case FullySharded::torch:
        break;
    }
  }
  const int whole = group_size(s_.parallel, group), slice = slice_size(s_.parallel, group);
  if (how == Reduction::all) {
    if (whole < 2) return no_task;
    return collective(device, row, row.whole, row.all_reduce, Collective::all_reduce, bytes, label,
                      before);
  }
  TaskId last = no_task;
  if (slice > 1 && s_.data_parallel.fp32_accumulation) {
    // Megatron-Core reduce_scatter_with_fp32_accumulation.py: what the others send is summed here.
    const Kernel sum = kernels(device).streaming({bytes + elements / slice * 4});
    last = collective(device, row, whole > slice ? row.inner : row.whole, row.reduce_scatter,
                      Collective::all_to_all, bytes, label, before + sum.duration);
  } else if (slice > 1)
    last = collective(device, row, whole > slice ? row.inner : row.whole, row.reduce_scatter,
                      Collective::reduce_scatter, bytes, label, before);
  if (how == Reduction::across && whole > slice)
    last = s_.data_parallel.outer_optimizer
               ? collective(device, row, row.outer, row.reduce_scatter, Collective::reduce_scatter,
                            bytes / slice, label)
               : collective(device, row, row.outer, row.all_reduce, Collective::all_reduce,
                            bytes / slice, label);
  return last;
}

}  // namespace stepsim
