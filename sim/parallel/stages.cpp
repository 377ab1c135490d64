#include "sim/parallel/stages.h"

#include <cassert>

namespace stepsim {

namespace {

std::vector<StageChunk> laid_out(const std::vector<LayoutStage>& layout) {
  std::vector<StageChunk> split;
  int next = 0;
  for (const LayoutStage& s : layout) {
    split.push_back({.first_layer = next,
                     .layer_count = s.layers,
                     .embedding = s.embedding,
                     .head = s.loss,
                     .mtp = s.mtp});
    next += s.layers;
  }
  return split;
}
/// Virtual stages in the order in which a microbatch visits them.
std::vector<StageChunk> virtual_stages(const Parallelism& parallel, int layers, int mtp) {
  if (!parallel.layout.empty()) return laid_out(parallel.layout);
  const int ranks = parallel.pp, stages = parallel.pipeline().virtual_stages(),
            chunks = stages / ranks;
  const bool uneven = parallel.first_stage_layers || parallel.last_stage_layers;
  std::vector<int> per_rank(static_cast<size_t>(ranks));
  if (uneven) {
    const int first = parallel.first_stage_layers.value_or(-1);
    const int last = parallel.last_stage_layers.value_or(-1);
    const int given = (first >= 0 ? 1 : 0) + (last >= 0 ? 1 : 0);
    const int rest = layers - (first >= 0 ? first : 0) - (last >= 0 ? last : 0);
    const int middle = ranks > given ? rest / (ranks - given) : 0;
    for (int& n : per_rank) n = middle;
    if (first >= 0) per_rank.front() = first;
    if (last >= 0) per_rank.back() = last;
  } else {
    const int extra =
        (parallel.account_for_embedding ? 1 : 0) + (parallel.account_for_loss ? 1 : 0);
    for (int& n : per_rank) n = (layers + extra) / ranks;
  }

  std::vector<StageChunk> split(static_cast<size_t>(stages));
  int next = 0;
  for (int v = 0; v < stages; ++v) {
    StageChunk& chunk = split[static_cast<size_t>(v)];
    chunk.embedding = v == 0;
    chunk.head = v == stages - 1;
    const bool up = parallel.placement == Placement::vee && v >= ranks;
    const int rank = up ? 2 * ranks - 1 - v : v % ranks;
    chunk.layer_count = per_rank[static_cast<size_t>(rank)] / chunks;
    if (!uneven && chunk.embedding && parallel.account_for_embedding) --chunk.layer_count;
    if (!uneven && chunk.head && parallel.account_for_loss) --chunk.layer_count;
    chunk.first_layer = next;
    next += chunk.layer_count;
  }
  assert(next == layers);
  split.back().mtp = mtp;
  return split;
}

}  // namespace

std::vector<StageChunk> split_layers(const Parallelism& parallel, int layers, int mtp) {
  const std::vector<StageChunk> stages = virtual_stages(parallel, layers, mtp);
  const PipelineShape shape = parallel.pipeline();
  std::vector<StageChunk> by_place;
  for (int chunk = 0; chunk < shape.chunks; ++chunk)
    for (int rank = 0; rank < shape.ranks; ++rank)
      by_place.push_back(stages[static_cast<size_t>(shape.virtual_stage({rank, chunk}))]);
  return by_place;
}

}  // namespace stepsim
