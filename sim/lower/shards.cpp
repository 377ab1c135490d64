#include "sim/lower/shards.h"

#include <algorithm>

#include "sim/cost/adapters.h"
#include "sim/cost/parameters.h"
#include "sim/lower/memory.h"

namespace stepsim {

namespace {

/// Parameters of one chunk in registration order: dense ones and routed experts apart.
struct ChunkParameters {
  std::vector<Parameter> dense, expert;
  int64_t replicated = 0;
  int64_t frozen = 0, expert_frozen = 0;
};

ChunkParameters chunk_parameters(const Scenario& s, const StageChunk& chunk) {
  ChunkParameters all;
  const Sharding sharding{.tp = s.parallel.tp, .ep = s.parallel.ep, .etp = s.parallel.etp};
  const int tp = sharding.tp;
  // Block-scaled weights are quantised behind the gather: its buffer is the gradients' (Megatron-
  // Core param_and_grad_buffer.py); FSDP gathers what it keeps.
  const bool late = s.precision.fp8 == Fp8Recipe::mxfp8 &&
                    s.data_parallel.fully_sharded != FullySharded::megatron;
  const int gathered = late ? 2 : 1;
  bool frozen = s.adapters.present();
  const auto add = [&](const std::vector<ParameterTensor>& tensors, int owner, bool fp8) {
    for (const ParameterTensor& t : tensors) {
      if (frozen) (t.expert ? all.expert_frozen : all.frozen) += t.elements;
      (t.expert ? all.expert : all.dense)
          .push_back({.elements = t.elements,
                      .owner = owner,
                      .alone = false,
                      .bytes = fp8 && t.gemm_weight ? gathered : 2,
                      .frozen = frozen});
      if (t.replicated && !frozen) all.replicated += t.elements;
    }
  };
  // Megatron-Core marks the embedding as shared when its two copies are on different ranks; only
  // the distributed optimizer lays its buffers out by such marks.
  const bool alone =
      s.model.tied_embeddings && s.parallel.ends_apart() && s.data_parallel.distributed_optimizer;
  if (chunk.embedding) {
    add(embedding_parameters(s.model, tp), 0, false);
    all.dense.front().alone = alone;
  }
  for (int i = 0; i < chunk.layer_count; ++i) {
    const int layer = chunk.first_layer + i;
    add(layer_parameters(s.model, layer, sharding), i + 1,
        s.precision.fp8_param_gather && quantised(s, layer));
    if (!s.adapters.present()) continue;
    frozen = false;
    add(adapter_parameters(s, s.model.shape(layer)), i + 1, false);
    frozen = true;
  }
  for (int i = 0; i < chunk.mtp; ++i) {
    // A prediction module away from the embedding has a copy of it.
    if (i == 0 && !chunk.embedding)
      add(embedding_parameters(s.model, tp), chunk.layer_count, false);
    add(prediction_parameters(s.model, sharding), chunk.layer_count, false);
  }
  if (chunk.head) {
    // A tied output weight is a copy of the embedding when the two live on different ranks.
    const bool weight = !s.model.tied_embeddings || s.parallel.ends_apart();
    add(head_parameters(s.model, tp, weight), chunk.layer_count + 1, false);
    all.dense.back().alone = alone;
  }
  return all;
}

}  // namespace

int group_size(const Parallelism& p, ShardGroup group) {
  if (group == ShardGroup::dense) return p.dp * p.cp;
  return p.experts ? p.edp() : 1;
}

int slice_size(const Parallelism& p, ShardGroup group) {
  return std::max(1, group_size(p, group) / p.optimizer_instances);
}

int optimizer_ranks(const Scenario& s, ShardGroup group) {
  const DataParallel& dp = s.data_parallel;
  const bool sharded = dp.fully_sharded == FullySharded::none ? dp.distributed_optimizer
                                                              : dp.shards(ShardStrategy::optim);
  if (!sharded) return 1;
  return dp.outer_optimizer ? group_size(s.parallel, group) : slice_size(s.parallel, group);
}

std::vector<ChunkShard> chunk_shards(const Scenario& s, const std::vector<StageChunk>& split,
                                     int stage) {
  std::vector<ChunkShard> shards;
  const int64_t group = group_size(s.parallel, ShardGroup::dense);
  const int64_t expert_group = group_size(s.parallel, ShardGroup::expert);
  for (int c = 0; c < s.parallel.chunks(); ++c) {
    const StageChunk& chunk = split[static_cast<size_t>(c * s.parallel.pp + stage)];
    const ChunkParameters parameters = chunk_parameters(s, chunk);
    // Megatron-Core distributed_data_parallel.py: many buckets only on pipeline rank 0, chunk 0.
    const bool bucketed = stage == 0 && c == 0 && s.overlap.overlap_grad_reduce &&
                          !s.overlap.param_gather_with_optimizer_step;
    const auto size = bucketed ? s.data_parallel.bucket_size : std::nullopt;
    ChunkShard shard;
    shard.replicated = parameters.replicated;
    shard.frozen = parameters.frozen;
    shard.expert_frozen = parameters.expert_frozen;
    if (chunk.head) shard.head_owner = chunk.layer_count + 1;
    const bool units = s.data_parallel.fully_sharded != FullySharded::none;
    const auto form = [&](const std::vector<Parameter>& all, int64_t ranks) {
      return units ? form_units(all, ranks) : form_buckets(all, size, ranks);
    };
    if (!parameters.dense.empty()) shard.buckets = form(parameters.dense, group);
    if (!parameters.expert.empty()) shard.expert_buckets = form(parameters.expert, expert_group);
    const auto bytes = [&](const Bucket& b) {  // adapters are kept in 16 bits
      return s.adapters.present() ? 2 * static_cast<double>(b.elements) : b.parameter_bytes;
    };
    for (const Bucket& b : shard.buckets) {
      shard.elements += b.elements;
      shard.parameter_bytes += bytes(b);
    }
    for (const Bucket& b : shard.expert_buckets) {
      shard.expert_elements += b.elements;
      shard.expert_parameter_bytes += bytes(b);
    }
    shard.owned = shard.elements / optimizer_ranks(s, ShardGroup::dense) +
                  shard.expert_elements / optimizer_ranks(s, ShardGroup::expert);
    shards.push_back(std::move(shard));
  }
  return shards;
}

}  // namespace stepsim
