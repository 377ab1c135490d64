#include "sim/lower/fully_sharded.h"

#include <algorithm>
#include <limits>

namespace stepsim {

std::vector<ShardedUnit> sharded_units(const ChunkShard& shard) {
  std::vector<ShardedUnit> units;
  for (const ShardGroupRow& row : shard_group_rows)
    for (const Bucket& b : shard.of(row.group)) {
      auto unit = std::find_if(units.begin(), units.end(),
                               [&](const ShardedUnit& u) { return u.owner == b.first_owner; });
      if (unit == units.end()) {
        const bool root = b.first_owner == 0 || b.first_owner == shard.head_owner;
        unit = units.insert(units.end(), {.owner = b.first_owner, .root = root});
      }
      unit->elements[static_cast<size_t>(row.group)] += static_cast<double>(b.elements);
      unit->frozen[static_cast<size_t>(row.group)] += static_cast<double>(b.frozen);
      unit->bytes[static_cast<size_t>(row.group)] += b.parameter_bytes;
    }
  std::sort(units.begin(), units.end(),
            [](const ShardedUnit& a, const ShardedUnit& b) { return a.owner < b.owner; });
  return units;
}

ShardWindow shard_window(const Scenario& s, const std::vector<ShardedUnit>& units) {
  const int everything = std::numeric_limits<int>::max();
  // FSDP2: the next unit is gathered under the current one; one reduction is in flight.
  if (s.data_parallel.fully_sharded == FullySharded::torch)
    return {.elements = std::numeric_limits<double>::infinity(),
            .units = 2,
            .waiting_elements = std::numeric_limits<double>::infinity(),
            .waiting_units = 1};
  // megatron_fsdp.py: the communication unit is two average units, at least 1e9 elements; gathers
  // run ahead by half of it. Two persistent buffers hold two units each.
  double sum = 0, layers = 0;
  for (const ShardedUnit& u : units) sum += u.size(), layers += !u.root;
  const double unit = std::max(1e9, 2 * sum / std::max(1.0, layers));
  const bool two = s.data_parallel.double_buffer;
  return {.elements = unit / 2,
          .units = two ? 2 : everything,
          .waiting_elements = unit,
          .waiting_units = static_cast<size_t>(two ? 2 : everything)};
}

HeldShards held_shards(const Scenario& s, std::span<const ChunkShard> chunks) {
  const DataParallel& dp = s.data_parallel;
  HeldShards held;
  double ahead = 0, roots = 0, largest = 0;
  for (const ChunkShard& c : chunks) {
    held.owned += static_cast<double>(c.owned);
    const auto part = [&](bool shard, int64_t dense_elements, int64_t expert_elements) {
      const auto dense = static_cast<double>(dense_elements),
                 expert = static_cast<double>(expert_elements);
      return shard ? dense / slice_size(s.parallel, ShardGroup::dense) +
                         expert / slice_size(s.parallel, ShardGroup::expert)
                   : dense + expert;
    };
    held.parameters += part(dp.shards(ShardStrategy::optim_grads_params), c.elements + c.frozen,
                            c.expert_elements + c.expert_frozen);
    held.gradients += part(dp.shards(ShardStrategy::optim_grads), c.elements, c.expert_elements);
    if (!dp.shards(ShardStrategy::optim_grads)) continue;
    const std::vector<ShardedUnit> units = sharded_units(c);
    const ShardWindow window = shard_window(s, units);
    for (size_t i = 0; i < units.size(); ++i) {
      double run = 0, layers = 0;
      int count = 0;
      for (size_t k = i; k < units.size() && run < window.elements && count < window.units; ++k) {
        run += units[k].size(), ++count;
        if (!units[k].root) layers += units[k].size();
      }
      ahead = std::max(ahead, layers);
      if (units[i].root) roots += units[i].size();
      largest = std::max(largest, units[i].elements[0] + units[i].elements[1]);
    }
  }
  // One rank alone gathers and scatters nothing: it works on its shards.
  if (slice_size(s.parallel, ShardGroup::dense) < 2) return held;
  if (dp.shards(ShardStrategy::optim_grads_params)) held.gathered_bytes += 2 * (ahead + roots);
  // Gradients of two units: one being made, one being reduced.
  if (dp.shards(ShardStrategy::optim_grads))
    held.gathered_bytes += 2 * largest * s.precision.gradient_bytes();
  return held;
}

FullyShardedWriter::FullyShardedWriter(const Scenario& scenario, StepWriter& writer,
                                       ShardCollectives& collectives)
    : s_(scenario),
      w_(writer),
      collectives_(collectives),
      chunks_(writer.device_count()),
      waiting_(writer.device_count()) {}

void FullyShardedWriter::add_chunk(uint32_t device, const ChunkShard& shard) {
  Chunk chunk{.units = sharded_units(shard), .window = {}};
  chunk.window = shard_window(s_, chunk.units);
  chunks_[device].push_back(std::move(chunk));
}

Label FullyShardedWriter::label(int chunk, const ShardedUnit& unit, Visit visit) const {
  return {.op = OpKind::dp_all_gather,
          .pass = visit.forward ? Pass::forward : Pass::backward,
          .chunk = static_cast<uint8_t>(chunk),
          .part = saturated_part(static_cast<size_t>(unit.owner)),
          .layer = Label::no_layer,
          .microbatch = saturated_microbatch(visit.microbatch)};
}

void FullyShardedWriter::gather(uint32_t device, int chunk, ShardedUnit& unit, Visit visit) {
  for (const ShardGroupRow& row : shard_group_rows) {
    const auto g = static_cast<size_t>(row.group);
    if (unit.elements[g] + unit.frozen[g] == 0 || unit.gathered[g]) continue;
    const Label name = label(chunk, unit, visit);
    if (s_.data_parallel.outer_optimizer && visit.forward && visit.microbatch == 0)
      collectives_.gather_across(device, row.group, unit.bytes[g], name);
    unit.gathered[g] = collectives_.gather(device, row.group, unit.bytes[g], name);
  }
}

void FullyShardedWriter::need(uint32_t device, int c, int owner, Visit visit) {
  const DataParallel& dp = s_.data_parallel;
  if (!dp.shards(ShardStrategy::optim)) return;
  Chunk& chunk = chunks_[device][static_cast<size_t>(c)];
  const auto here = std::find_if(chunk.units.begin(), chunk.units.end(),
                                 [&](const ShardedUnit& u) { return u.owner == owner; });
  if (here == chunk.units.end()) return;
  const bool torch = dp.fully_sharded == FullySharded::torch;
  // Megatron-FSDP's root has no backward hook: the last layer is gathered when its backward begins.
  const bool ahead = visit.forward || torch || !here->root;
  double elements = 0;
  int count = 0;
  for (auto unit = here; elements < chunk.window.elements && count < chunk.window.units;) {
    gather(device, c, *unit, visit);
    elements += unit->size(), ++count;
    if (!ahead || (visit.forward ? unit + 1 == chunk.units.end() : unit == chunk.units.begin()))
      break;
    visit.forward ? ++unit : --unit;
  }
  for (const std::optional<TaskId>& task : here->gathered)
    if (task && *task != no_task) w_.wait(device, *task);
  if (!dp.shards(ShardStrategy::optim_grads_params)) return;
  const bool frees =
      visit.forward ? !here->root && (!torch || dp.reshard_after_forward) : !here->root || torch;
  if (frees) here->gathered = {};
}

void FullyShardedWriter::reduce(uint32_t device, int chunk, ShardedUnit& unit, int microbatch) {
  const bool last = microbatch + 1 == s_.batch.microbatches;
  unit.reduced = last;
  const Reduction how = !s_.data_parallel.shards(ShardStrategy::optim) ? Reduction::all
                        : last                                         ? Reduction::across
                                                                       : Reduction::scatter;
  const ShardWindow& window = chunks_[device][static_cast<size_t>(chunk)].window;
  for (const ShardGroupRow& row : shard_group_rows) {
    const auto g = static_cast<size_t>(row.group);
    if (unit.elements[g] == 0) continue;
    const TaskId task =
        collectives_.reduce(device, row.group, unit.elements[g], how,
                            label(chunk, unit, {.forward = false, .microbatch = microbatch}));
    if (task == no_task) continue;
    std::deque<Waiting>& queue = waiting_[device][g];
    queue.push_back({task, unit.elements[g]});
    double elements = 0;
    for (const Waiting& w : queue) elements += w.elements;
    // The backward stops for the oldest when too much waits; stream order covers older ones.
    while (queue.size() > 1 &&
           (elements > window.waiting_elements || queue.size() > window.waiting_units)) {
      w_.wait(device, queue.front().task);
      elements -= queue.front().elements;
      queue.pop_front();
    }
  }
}

void FullyShardedWriter::gradient_ready(uint32_t device, int c, int owner, int microbatch) {
  const bool last = microbatch + 1 == s_.batch.microbatches;
  if (!last && !s_.data_parallel.shards(ShardStrategy::optim_grads)) return;
  const bool deferred = s_.overlap.defer_embedding_wgrad;
  for (ShardedUnit& unit : chunks_[device][static_cast<size_t>(c)].units)
    if (unit.owner == owner && !(deferred && unit.root && owner > 0))
      reduce(device, c, unit, microbatch);
}

void FullyShardedWriter::finish(uint32_t device) {
  const auto last = static_cast<int>(s_.batch.microbatches) - 1;
  for (size_t c = chunks_[device].size(); c-- > 0;)
    for (ShardedUnit& unit : chunks_[device][c].units)
      if (!unit.reduced) reduce(device, static_cast<int>(c), unit, last);
  for (auto& queue : waiting_[device]) {
    if (!queue.empty()) w_.wait(device, queue.back().task);
    queue.clear();
  }
}

}  // namespace stepsim
