#include "sim/lower/inventory.h"

#include <algorithm>

#include "sim/lower/memory.h"
#include "sim/parallel/mesh.h"
#include "sim/parallel/schedule.h"

namespace stepsim {

namespace {

/// The allocations of one rank's schedule, in its order. What a forward keeps is freed behind the
/// whole backward, or behind its halves.
std::vector<MemoryEvent> allocations(const Scenario& s, const std::vector<StageChunk>& split,
                                     const Program& program, int stage, int& most_in_flight) {
  std::vector<Kept> kept;
  for (int c = 0; c < s.parallel.chunks(); ++c)
    kept.push_back(kept_by(s, split[static_cast<size_t>(c * s.parallel.pp + stage)]));
  std::vector<MemoryEvent> events;
  int live = 0;
  for (const Action& a : program) {
    const Kept& k = kept[a.chunk];
    if (a.kind == ActionKind::forward) {
      events.push_back({no_task, k.activations, k.logits});
      most_in_flight = std::max(most_in_flight, ++live);
    }
    if (a.kind == ActionKind::backward_input) events.push_back({no_task, -k.input_half});
    if (a.kind != ActionKind::backward && a.kind != ActionKind::backward_weight) continue;
    const double rest = a.kind == ActionKind::backward_weight ? k.input_half : 0;
    events.push_back({no_task, rest - k.activations, -k.logits});
    --live;
    if (split[static_cast<size_t>(a.chunk * s.parallel.pp + stage)].head &&
        head_deferred(s, a.microbatch))
      events.push_back({no_task, deferred_head_bytes(s)});
  }
  return events;
}

}  // namespace

int64_t StageInventory::parameters() const {
  int64_t sum = 0;
  for (const ChunkShard& c : chunks)
    sum += c.elements + c.expert_elements + c.frozen + c.expert_frozen;
  return sum;
}

std::vector<StageInventory> inventory(const Scenario& s) {
  const Mesh mesh(s.parallel);
  const std::vector<StageChunk> split =
      split_layers(s.parallel, s.model.layers, s.model.mtp_layers);
  const std::vector<Program> programs =
      schedule_row(s.schedule).programs(schedule_shape(s, weight_memory(s)));
  std::vector<StageInventory> stages;
  for (int stage = 0; stage < s.parallel.pp; ++stage) {
    StageInventory row;
    row.rank = stage * mesh.stage_stride();
    row.chunks = chunk_shards(s, split, stage);
    std::vector<StageChunk> own;
    for (int c = 0; c < s.parallel.chunks(); ++c)
      own.push_back(split[static_cast<size_t>(c * s.parallel.pp + stage)]);
    row.memory = device_memory(
        s, own, held_shards(s, row.chunks),
        allocations(s, split, programs[static_cast<size_t>(stage)], stage, row.most_in_flight));
    stages.push_back(std::move(row));
  }
  return stages;
}

std::vector<BucketRow> bucket_rows(const Scenario& s, const std::vector<StageInventory>& stages) {
  std::vector<BucketRow> rows;
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (size_t c = 0; c < stages[stage].chunks.size(); ++c) {
      const ChunkShard& shard = stages[stage].chunks[c];
      rows.push_back({.stage = static_cast<int>(stage),
                      .chunk = static_cast<int>(c),
                      .count = static_cast<int>(shard.buckets.size()),
                      .elements = shard.elements,
                      .bytes = static_cast<double>(shard.elements) * s.precision.gradient_bytes()});
    }
  return rows;
}

RuleOfThumb RuleOfThumb::per_gpu(int tp, int pp) const {
  const double ranks = static_cast<double>(tp) * pp;
  return {parameters / ranks, gradients / ranks, optimizer / ranks, activations / ranks};
}

RuleOfThumb rule_of_thumb(double parameters, const Model& m, const Batch& b) {
  return {.parameters = 2 * parameters,
          .gradients = 2 * parameters,
          .optimizer = 4 * parameters,
          .activations = 18 * static_cast<double>(b.sequence * b.micro) *
                         static_cast<double>(m.hidden) * m.layers};
}

}  // namespace stepsim
