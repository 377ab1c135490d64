#include "sim/lower/data_parallel.h"

#include <algorithm>
#include <cassert>

#include "sim/cost/layer_sizes.h"
#include "sim/lower/host_optimizer.h"
#include "sim/lower/memory.h"

namespace stepsim {

namespace {

/// Bytes per owned parameter of each pass around the update (Megatron-Core optimizer).
constexpr double norm_bytes = 4, grad_copy_bytes = 6, unscale_bytes = 8;

}  // namespace

DataParallelWriter::DataParallelWriter(const Scenario& scenario,
                                       const std::vector<StageChunk>& split, StepWriter& writer,
                                       const std::vector<SimulatedDevice>& devices)
    : s_(scenario),
      w_(writer),
      collectives_(scenario, writer),
      devices_(devices),
      state_(devices.size()),
      reductions_(devices.size()) {
  const int chunks = s_.parallel.chunks();
  if (s_.data_parallel.fully_sharded != FullySharded::none)
    units_.emplace(scenario, writer, collectives_);
  if (s_.schedule == ScheduleKind::interleaved)
    order_ = interleaved_order(
        chunks, static_cast<int>(s_.batch.microbatches),
        s_.parallel.microbatch_group > 0 ? s_.parallel.microbatch_group : s_.parallel.pp);
  for (size_t d = 0; d < devices.size(); ++d)
    for (ChunkShard& shard : chunk_shards(s_, split, devices[d].stage)) {
      ChunkState state;
      for (const ShardGroupRow& row : shard_group_rows) {
        const auto g = static_cast<size_t>(row.group);
        state.gathers[g].resize(shard.of(row.group).size());
        state.reduced[g].assign(shard.of(row.group).size(), false);
      }
      if (units_) units_->add_chunk(static_cast<uint32_t>(d), shard);
      state.shard = std::move(shard);
      state_[d].push_back(std::move(state));
    }
}

Label DataParallelWriter::label(OpKind op, int chunk, size_t part) {
  return {.op = op,
          .pass = Pass::step,
          .chunk = static_cast<uint8_t>(chunk),
          .part = saturated_part(part),
          .layer = Label::no_layer,
          .microbatch = Label::no_microbatch};
}

HeldShards DataParallelWriter::held(uint32_t device) const {
  std::vector<ChunkShard> chunks;
  for (const ChunkState& c : state_[device]) chunks.push_back(c.shard);
  return held_shards(s_, chunks);
}

bool DataParallelWriter::hooks(uint32_t device) const {
  if (!s_.overlap.overlap_grad_reduce) return false;
  if (s_.parallel.pp == 1 || !s_.overlap.align_grad_reduce) return true;
  return s_.schedule != ScheduleKind::interleaved && devices_[device].stage == 0;
}

void DataParallelWriter::optimizer_kernels(uint32_t device, int first_chunk, int last_chunk) {
  double owned = 0, written = 0;
  for (int c = first_chunk; c < last_chunk; ++c) {
    const ChunkShard& shard = chunk(device, c).shard;
    owned += static_cast<double>(shard.owned);
    written += shard.parameter_bytes / optimizer_ranks(s_, ShardGroup::dense) +
               shard.expert_parameter_bytes / optimizer_ranks(s_, ShardGroup::expert);
  }
  if (owned == 0) return;
  const double away = owned * s_.host_optimizer.fraction;
  HostUpdate host(s_, w_, device, away, label(OpKind::adam, first_chunk, 0));
  host.send_gradients();
  if (away < owned)
    w_.kernel(device, kernels(device).streaming({(owned - away) * s_.data_parallel.adam_bytes}),
              label(OpKind::adam, first_chunk, 0));
  host.update();
  w_.kernel(device, kernels(device).streaming({owned * 4 + written}),
            label(OpKind::param_copy, first_chunk, 0));
}

void DataParallelWriter::begin_step(uint32_t device) {
  const int chunks = s_.parallel.chunks();
  w_.host_block(device, s_.cluster.stack.step_overhead, label(OpKind::step_overhead, 0, 0));
  if (s_.overlap.param_gather_with_optimizer_step && gathers()) {
    optimizer_kernels(device, 0, 1);
    gather(device, 0);
    optimizer_kernels(device, 1, chunks);
  } else {
    optimizer_kernels(device, 0, chunks);
  }
  if (gathers() && !s_.overlap.overlap_param_gather) {
    for (int c = 0; c < chunks; ++c) gather(device, c);
    for (int c = 0; c < chunks; ++c)
      for (const auto& group : chunk(device, c).gathers)
        for (const std::optional<TaskId>& g : group)
          if (g && *g != no_task) w_.wait(device, *g);
  }
  const double main_grad = s_.precision.gradient_bytes();
  w_.kernel(device, kernels(device).streaming({held(device).gradients * main_grad}),
            label(OpKind::zero_grad, 0, 0));
  if (gathers() && s_.overlap.align_param_gather && s_.overlap.overlap_param_gather)
    for (int c = 0; c < std::min(chunks, 2); ++c) gather(device, c);
}

void DataParallelWriter::before_forward(uint32_t device, int virtual_step) {
  if (!gathers() || !s_.overlap.overlap_param_gather || !s_.overlap.align_param_gather) return;
  const size_t ahead = static_cast<size_t>(virtual_step + devices_[device].stage);
  if (ahead >= order_.size() || order_[ahead].microbatch != 0) return;
  const int next = order_[ahead].chunk + 1;
  if (next > 1 && next < s_.parallel.chunks()) gather(device, next);
}

void DataParallelWriter::gather(uint32_t device, int c) {
  ChunkState& state = state_[device][static_cast<size_t>(c)];
  for (const ShardGroupRow& row : shard_group_rows) {
    const std::vector<Bucket>& buckets = state.shard.of(row.group);
    // Forward order: the last bucket holds the chunk's first parameters.
    for (size_t b = buckets.size(); b-- > 0;) {
      std::optional<TaskId>& task = state.gathers[static_cast<size_t>(row.group)][b];
      if (!task)
        task = collectives_.gather(device, row.group, buckets[b].parameter_bytes,
                                   label(row.all_gather, c, b));
    }
  }
}

void DataParallelWriter::need(uint32_t device, int c, int owner, Visit visit) {
  if (units_) return units_->need(device, c, owner, visit);
  if (!gathers() || !visit.forward || visit.microbatch > 0) return;
  gather(device, c);  // the first forward hook launches what nothing launched before
  const ChunkState& state = chunk(device, c);
  for (const ShardGroupRow& row : shard_group_rows) {
    const std::vector<Bucket>& buckets = state.shard.of(row.group);
    for (size_t b = 0; b < buckets.size(); ++b) {
      const TaskId task = *state.gathers[static_cast<size_t>(row.group)][b];
      if (task != no_task && buckets[b].holds(owner)) w_.wait(device, task);
    }
  }
}

void DataParallelWriter::reduce(uint32_t device, int c, ShardGroup group, size_t b) {
  ChunkState& state = state_[device][static_cast<size_t>(c)];
  if (state.reduced[static_cast<size_t>(group)][b]) return;
  state.reduced[static_cast<size_t>(group)][b] = true;
  const Reduction how = s_.data_parallel.distributed_optimizer ? Reduction::across : Reduction::all;
  const TaskId task =
      collectives_.reduce(device, group, static_cast<double>(state.shard.of(group)[b].elements),
                          how, label(OpKind::grad_scale, c, b));
  if (task != no_task) reductions_[device].push_back(task);
}

/// The output projection's gradient comes after the drain: what it is part of is reduced then.
bool DataParallelWriter::deferred(uint32_t device, int c) const {
  return s_.overlap.defer_embedding_wgrad && chunk(device, c).shard.head_owner > 0;
}

void DataParallelWriter::reduce_rest(uint32_t device, int c) {
  for (const ShardGroupRow& row : shard_group_rows)
    for (size_t b = 0; b < chunk(device, c).shard.of(row.group).size(); ++b)
      reduce(device, c, row.group, b);
}

void DataParallelWriter::gradient_ready(uint32_t device, int c, int owner, int microbatch) {
  if (units_) return units_->gradient_ready(device, c, owner, microbatch);
  if (microbatch + 1 != s_.batch.microbatches || !hooks(device)) return;
  const ChunkShard& shard = chunk(device, c).shard;
  for (const ShardGroupRow& row : shard_group_rows) {
    const std::vector<Bucket>& buckets = shard.of(row.group);
    for (size_t b = 0; b < buckets.size(); ++b) {
      const bool waits = deferred(device, c) && buckets[b].last_owner == shard.head_owner;
      if (buckets[b].first_owner == owner && !waits) reduce(device, c, row.group, b);
    }
  }
}

void DataParallelWriter::after_backward(uint32_t device, int virtual_step) {
  if (units_ || !s_.overlap.overlap_grad_reduce || hooks(device) || order_.empty()) return;
  const int late = virtual_step - devices_[device].stage;
  if (late < 0) return;
  const VirtualStep& step = order_[static_cast<size_t>(late)];
  const int c = s_.parallel.chunks() - 1 - step.chunk;
  if (deferred(device, c)) return;
  if (step.microbatch + 1 == s_.batch.microbatches) reduce_rest(device, c);
}

void DataParallelWriter::synchronise_gradients(uint32_t device) {
  const int tp = s_.parallel.tp, stage = devices_[device].stage;
  const double main_grad = s_.precision.gradient_bytes();
  if (tp > 1 && s_.parallel.sequence_parallel) {
    // They see only this rank's shard of the sequence: their gradients are summed over TP,
    // coalesced.
    double replicated = 0;
    for (const ChunkState& c : state_[device])
      replicated += static_cast<double>(c.shard.replicated);
    const CollectiveCost cost = collective_cost(Collective::all_reduce, {replicated * main_grad},
                                                w_.placement(device, Meeting::tp), s_.cluster);
    w_.wait(device, w_.collective(device, Meeting::tp, Stream::tp, cost,
                                  label(OpKind::tp_all_reduce, 0, 0)));
  }
  const bool end = stage == 0 || stage + 1 == s_.parallel.pp;
  // Prediction modules have a copy of the embedding too (Megatron-Core finalize_model_grads.py).
  const bool shared =
      (s_.model.tied_embeddings || s_.model.mtp_layers > 0) && !s_.adapters.present();
  if (shared && s_.parallel.ends_apart() && end) {
    const int64_t rows = padded_vocab(s_.model, tp) / tp;
    const auto elements = static_cast<double>(rows * s_.model.hidden);
    const CollectiveCost cost =
        collective_cost(Collective::all_reduce, {elements * main_grad},
                        w_.placement(device, Meeting::embedding), s_.cluster);
    w_.wait(device, w_.collective(device, Meeting::embedding, Stream::dp, cost,
                                  label(OpKind::embedding_all_reduce, 0, 0)));
  }
}

void DataParallelWriter::end_step(uint32_t device) {
  if (units_)
    units_->finish(device);
  else
    for (int c = s_.parallel.chunks(); c-- > 0;) reduce_rest(device, c);
  for (TaskId r : reductions_[device]) w_.wait(device, r);
  synchronise_gradients(device);
  double owned = 0;
  for (const ChunkState& c : state_[device]) owned += static_cast<double>(c.shard.owned);
  double bytes = norm_bytes;
  if (!s_.precision.grad_reduce_in_fp32 && s_.data_parallel.copies_gradients)
    bytes += grad_copy_bytes;
  if (s_.precision.parameters == Dtype::fp16) bytes += unscale_bytes;
  w_.kernel(device, kernels(device).streaming({owned * bytes}), label(OpKind::grad_norm, 0, 0));
  const CollectiveCost cost = collective_cost(Collective::all_reduce, {4},
                                              w_.placement(device, Meeting::world), s_.cluster);
  w_.collective(device, Meeting::world, Stream::dp, cost, label(OpKind::norm_all_reduce, 0, 0));
}

}  // namespace stepsim
