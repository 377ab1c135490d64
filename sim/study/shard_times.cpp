#include "sim/study/shard_times.h"

#include <algorithm>
#include <array>
#include <climits>

#include "sim/cost/kernel.h"
#include "sim/lower/shards.h"
#include "sim/network/collective.h"

namespace stepsim {
namespace {

/// Collectives over the copies of one stage's parameters.
class ShardGroups {
 public:
  ShardGroups(const Scenario& s, const Mesh& mesh, const Fabric& fabric, int rank) : s_(s) {
    const auto at = [&](GroupKind kind) {
      if (mesh.group_size(kind) < 2 || (is_expert(kind) && !s.parallel.experts))
        return GroupPlacement{};
      return place(mesh.group(kind, rank), fabric);
    };
    groups_ = {at(GroupKind::dp_cp), at(GroupKind::edp)};
  }
  double gather(ShardGroup group, double bytes) const {
    return time(group, Collective::all_gather, bytes);
  }
  double reduce(ShardGroup group, int64_t elements) const {
    const double bytes = static_cast<double>(elements) * s_.precision.gradient_bytes();
    return time(group,
                s_.data_parallel.distributed_optimizer ? Collective::reduce_scatter
                                                       : Collective::all_reduce,
                bytes);
  }

 private:
  double time(ShardGroup group, Collective op, double bytes) const {
    const GroupPlacement& where = groups_[static_cast<size_t>(group)];
    if (where.size < 2 || bytes <= 0) return 0;
    return collective_cost(op, {bytes}, where, s_.cluster).duration.value;
  }
  const Scenario& s_;
  std::array<GroupPlacement, shard_group_count> groups_;
};

/// Slices, FSDP's units, given kernel times and faults take other ways: nothing is claimed of them.
bool plain(const Scenario& s) {
  return s.data_parallel.fully_sharded == FullySharded::none &&
         s.parallel.optimizer_instances == 1 && !s.data_parallel.fp32_accumulation &&
         s.kernel_times.empty() && !s.faults.any() && s.parallel.placement == Placement::ring &&
         !s.adapters.present() && !s.host_optimizer.any() && s.schedule != ScheduleKind::order;
}

constexpr std::array<ShardGroup, 2> both_groups{ShardGroup::dense, ShardGroup::expert};

}  // namespace

ShardTimes shard_times(const Scenario& s, const std::vector<StageChunk>& split, int stage,
                       const Mesh& mesh, const Fabric& fabric) {
  ShardTimes times;
  times.gathered.assign(static_cast<size_t>(s.parallel.chunks()), 0);
  if (!plain(s)) return times;
  times.host = s.cluster.stack.step_overhead.value;
  const std::vector<ChunkShard> chunks = chunk_shards(s, split, stage);
  const HeldShards held = held_shards(s, chunks);
  const ShardGroups groups(s, mesh, fabric, stage * mesh.stage_stride());
  const KernelModel kernels(s.cluster.device, s.cluster.stack, 1);
  // Kernels have a gap each; how many there are is left out.
  const auto traffic = [&](double bytes) { return kernels.traffic({bytes}).duration.value; };
  const auto update = [&](const ChunkShard& c) {
    const auto owned = static_cast<double>(c.owned);
    if (owned == 0) return 0.0;
    const double written = c.parameter_bytes / optimizer_ranks(s, ShardGroup::dense) +
                           c.expert_parameter_bytes / optimizer_ranks(s, ShardGroup::expert);
    return traffic(owned * (s.data_parallel.adam_bytes + 4) + written);
  };
  double optimizer = s.cluster.stack.step_overhead.value;
  for (const ChunkShard& c : chunks) optimizer += update(c);
  times.update = optimizer + traffic(held.gradients * s.precision.gradient_bytes());
  if (s.data_parallel.distributed_optimizer) {
    std::array<double, shard_group_count> stream{};
    stream.fill(s.overlap.param_gather_with_optimizer_step ? times.host + update(chunks[0])
                                                           : optimizer);
    double all = 0;
    for (size_t c = 0; c < chunks.size(); ++c)
      for (ShardGroup group : both_groups) {
        double& end = stream[static_cast<size_t>(group)];
        const std::vector<Bucket>& buckets = chunks[c].of(group);
        const int first =
            split[c * static_cast<size_t>(s.parallel.pp) + static_cast<size_t>(stage)].embedding
                ? 0
                : 1;
        for (size_t b = buckets.size(); b-- > 0;) {
          end += groups.gather(group, buckets[b].parameter_bytes);
          if (buckets[b].holds(first)) times.gathered[c] = std::max(times.gathered[c], end);
          all = std::max(all, end);
        }
      }
    if (!s.overlap.overlap_param_gather)
      std::fill(times.gathered.begin(), times.gathered.end(), all);
  }
  // Released by the last backward only: all of them, or what holds the first parameters.
  int first_owner = INT_MAX;
  for (const Bucket& bucket : chunks[0].buckets)
    first_owner = std::min(first_owner, bucket.first_owner);
  double reduced = 0;
  for (ShardGroup group : both_groups) {
    double sum = 0;
    for (size_t c = 0; c < chunks.size(); ++c)
      for (size_t b = 0; b < chunks[c].of(group).size(); ++b) {
        const Bucket& bucket = chunks[c].of(group)[b];
        const bool last = c == 0 && group == ShardGroup::dense && bucket.first_owner == first_owner;
        if (!s.overlap.overlap_grad_reduce || last) sum += groups.reduce(group, bucket.elements);
      }
    reduced = std::max(reduced, sum);
  }
  double owned = 0;
  for (const ChunkShard& c : chunks) owned += static_cast<double>(c.owned);
  times.finish = reduced + traffic(owned * 4);
  return times;
}

}  // namespace stepsim
