#include "sim/report/blocks.h"

#include <algorithm>
#include <array>

namespace stepsim {
namespace {

enum class Direction : uint8_t { forward, backward, step };

Direction direction_of(Pass pass) {
  if (pass == Pass::step) return Direction::step;
  return pass == Pass::forward ? Direction::forward : Direction::backward;
}

/// A block that may still grow, and what tells whether it holds both halves of a backward.
struct Growing {
  Block block;
  Direction direction{};
  double others_finish = 0;  ///< of the kernels that are no weight gradients
  double weights_start = 0, weights_finish = 0, weights_busy = 0;
  TaskId first_weight = no_task;
  bool others = false;
  bool whole = false;  ///< a given time of a whole backward

  bool holds(Label label) const {
    return direction == direction_of(label.pass) &&
           (direction == Direction::step ||
            (block.chunk == label.chunk && block.microbatch == label.microbatch));
  }
};

/// The blocks of one device while its stream is read.
struct Growth {
  std::vector<Growing> blocks;
  std::array<uint32_t, 2> open{no_block, no_block};  ///< two actions may run merged; latest first

  uint32_t place(Label label, TaskId task, double start) {
    // Scaling a bucket's gradients before its reduction ends no backward.
    if (label.op == OpKind::grad_scale && open[0] != no_block) return open[0];
    if (open[1] != no_block && blocks[open[1]].holds(label)) std::swap(open[0], open[1]);
    if (open[0] != no_block && blocks[open[0]].holds(label)) return open[0];
    Growing g;
    g.direction = direction_of(label.pass);
    g.block.chunk = label.chunk;
    g.block.microbatch = g.direction == Direction::step ? Label::no_microbatch : label.microbatch;
    g.block.start_seconds = start;
    g.block.first = task;
    open = {static_cast<uint32_t>(blocks.size()), open[0]};
    blocks.push_back(g);
    return open[0];
  }
};

void grow(Growing& g, Label label, TaskId task, double start, double finish) {
  g.block.finish_seconds = std::max(g.block.finish_seconds, finish);
  g.block.busy_seconds += finish - start;
  if (label.pass != Pass::backward_weight) {
    g.whole = g.whole || (label.op == OpKind::given && label.pass == Pass::backward);
    g.others = true;
    g.others_finish = finish;
    return;
  }
  if (g.first_weight == no_task) {
    g.first_weight = task;
    g.weights_start = start;
  }
  g.weights_finish = finish;
  g.weights_busy += finish - start;
}

BlockKind kind_of(const Growing& g, bool halves) {
  switch (g.direction) {
    case Direction::forward:
      return BlockKind::forward;
    case Direction::step:
      return BlockKind::step;
    case Direction::backward:
      break;
  }
  if (!g.others) return BlockKind::backward_weight;
  return halves && !g.whole && g.first_weight == no_task ? BlockKind::backward_input
                                                         : BlockKind::backward;
}

/// Appends the block; its weight half apart when that follows the rest.
void settle(std::vector<Block>& rows, const Growing& g, bool halves) {
  Block block = g.block;
  block.kind = kind_of(g, halves);
  if (block.kind != BlockKind::backward || !halves || g.first_weight == no_task ||
      g.weights_start < g.others_finish) {
    rows.push_back(block);
    return;
  }
  Block weights = block;
  block.kind = BlockKind::backward_input;
  block.finish_seconds = g.others_finish;
  block.busy_seconds -= g.weights_busy;
  rows.push_back(block);
  weights.kind = BlockKind::backward_weight;
  weights.start_seconds = g.weights_start;
  weights.finish_seconds = g.weights_finish;
  weights.busy_seconds = g.weights_busy;
  weights.first = g.first_weight;
  rows.push_back(weights);
}

}  // namespace

Blocks merged_blocks(const LoweredStep& step, const Timeline& timeline, const StepEnd& end,
                     bool halves) {
  const TaskGraph& graph = step.graph;
  Blocks result;
  result.of_task.assign(graph.task_count(), no_block);
  std::vector<Growth> growths(step.devices.size());
  for (uint32_t t = 0; t < graph.task_count(); ++t) {
    const StreamId stream = graph.streams[t];
    if (stream == no_stream || stream_of(stream) != Stream::compute) continue;
    const uint32_t device = device_of(stream);
    const double start = timeline.start_seconds[t];
    const double finish = std::min(timeline.finish_seconds[t], end.finish(device));
    if (finish <= start || start < end.begin(device)) continue;
    const Label label = Label::unpack(graph.labels[t]);
    Growth& growth = growths[device];
    const uint32_t at = growth.place(label, TaskId{t}, start);
    grow(growth.blocks[at], label, TaskId{t}, start, finish);
    result.of_task[t] = at;
  }
  /// The rows that a growing block has become: of its weight half, and of the rest.
  struct Settled {
    uint32_t rest = no_block, weights = no_block;
  };
  std::vector<std::vector<Settled>> settled(growths.size());
  for (size_t d = 0; d < growths.size(); ++d) {
    result.offsets.push_back(static_cast<uint32_t>(result.rows.size()));
    std::vector<Block> rows;
    for (const Growing& g : growths[d].blocks) settle(rows, g, halves);
    std::stable_sort(rows.begin(), rows.end(), [](const Block& a, const Block& b) {
      return index(a.first) < index(b.first);
    });
    settled[d].resize(growths[d].blocks.size());
    for (Block& block : rows) {
      block.device = static_cast<uint32_t>(d);
      Settled& s = settled[d][result.of_task[index(block.first)]];
      (block.kind == BlockKind::backward_weight ? s.weights : s.rest) =
          static_cast<uint32_t>(result.rows.size());
      result.rows.push_back(block);
    }
  }
  result.offsets.push_back(static_cast<uint32_t>(result.rows.size()));
  for (uint32_t t = 0; t < graph.task_count(); ++t) {
    uint32_t& of = result.of_task[t];
    if (of == no_block) continue;
    const Settled& s = settled[device_of(graph.streams[t])][of];
    const bool weights = Label::unpack(graph.labels[t]).pass == Pass::backward_weight;
    of = s.weights != no_block && (weights || s.rest == no_block) ? s.weights : s.rest;
  }
  return result;
}

}  // namespace stepsim
