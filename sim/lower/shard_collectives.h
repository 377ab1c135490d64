// Collectives of the groups over which parameters are reduced, gathered and sharded.
// Megatron-Core param_and_grad_buffer.py: with several optimizer instances gradients are
// reduce-scattered inside a slice of the group, the shard is then all-reduced across slices, one
// after the other on one stream; parameters are gathered inside the slice only.
#pragma once

#include <array>

#include "sim/cost/kernel.h"
#include "sim/lower/shards.h"
#include "sim/lower/step_writer.h"

namespace stepsim {

/// Where one group's collectives run and what they are called.
struct ShardGroupRow {
  ShardGroup group;
  Meeting whole, inner, outer;  ///< all members, a slice, one place in all slices
  Stream stream;
  OpKind all_gather, reduce_scatter, all_reduce;
};
inline constexpr std::array<ShardGroupRow, shard_group_count> shard_group_rows{{
    {ShardGroup::dense, Meeting::dp, Meeting::dp_inner, Meeting::dp_outer, Stream::dp,
     OpKind::dp_all_gather, OpKind::dp_reduce_scatter, OpKind::dp_all_reduce},
    {ShardGroup::expert, Meeting::edp, Meeting::edp_inner, Meeting::edp_outer, Stream::edp,
     OpKind::edp_all_gather, OpKind::edp_reduce_scatter, OpKind::edp_all_reduce},
}};

/// How a gradient is reduced.
enum class Reduction {
  all,      ///< every rank ends with all of it
  scatter,  ///< every rank ends with its shard, summed inside its slice
  across,   ///< as scatter, and the shard is summed (or shared out further) across slices
};

/// Writes them. Of one member nothing is sent; the task is no_task then.
class ShardCollectives {
 public:
  ShardCollectives(const Scenario& scenario, StepWriter& writer) : s_(scenario), w_(writer) {}

  /// Every rank of the slice ends with all `bytes`. `label.op` is set here.
  TaskId gather(uint32_t device, ShardGroup group, double bytes, Label label);
  /// What slices share out among themselves comes together: the shard of a slice's rank.
  void gather_across(uint32_t device, ShardGroup group, double bytes, Label label);
  TaskId reduce(uint32_t device, ShardGroup group, double elements, Reduction how, Label label);
  /// The optimizer's kernels and the gradients' passes on a device.
  KernelModel kernels(uint32_t device) const {
    return {s_.cluster.device, s_.cluster.stack, w_.fault(device).slowdown};
  }

 private:
  TaskId collective(uint32_t device, const ShardGroupRow& row, Meeting meeting, OpKind op,
                    Collective kind, double bytes, Label label, Seconds before = {});
  bool scales(ShardGroup group) const;

  const Scenario& s_;
  StepWriter& w_;
};

}  // namespace stepsim
