#include "sim/parallel/schedule.h"

#include <array>

#include "sim/parallel/schedule_programs.h"

namespace stepsim {

namespace {

template <Program (*program)(const ScheduleShape&, int)>
std::vector<Program> by_rank(const ScheduleShape& shape) {
  std::vector<Program> programs;
  for (int rank = 0; rank < shape.ranks; ++rank) programs.push_back(program(shape, rank));
  return programs;
}
std::vector<Program> zb_1p_programs(const ScheduleShape& shape) {
  return searched_programs(shape, shape.ranks);
}
std::vector<Program> zb_2p_programs(const ScheduleShape& shape) {
  return searched_programs(shape, 2 * shape.ranks);
}

constexpr ScheduleRow make_row(ScheduleKind kind, std::string_view description,
                               std::vector<Program> (*programs)(const ScheduleShape&)) {
  return {kind, name(kind), description, programs};
}
using enum ScheduleKind;
// f, b, w: times of a forward and of the input and weight half of a backward; fb: of a forward and
// a backward that overlap.
constexpr std::array<ScheduleRow, schedule_names.size()> rows{
    make_row(gpipe, "all forwards, then all backwards; bubble (p-1)/(m+p-1)",
             by_rank<gpipe_program>),
    make_row(one_f_one_b,
             "one forward, one backward after a warm-up of p-1-rank; bubble (p-1)/(m+p-1)",
             by_rank<one_f_one_b_program>),
    make_row(interleaved, "1F1B over v model chunks per rank; bubble (p-1)/(v*m+p-1)",
             by_rank<interleaved_program>),
    make_row(zb_h1, "1F1B with late weight gradients, in its memory; idle (p-1)(f+b-w)",
             by_rank<zb_h1_program>),
    make_row(zb_h2, "twice the warm-up and the memory of zb_h1; idle (p-1)(f+b-2w)",
             by_rank<zb_h2_program>),
    make_row(zb_1p, "zero bubble by the paper's search, in the memory of p microbatches",
             zb_1p_programs),
    make_row(zb_2p, "zero bubble by the paper's search, in the memory of 2p microbatches",
             zb_2p_programs),
    make_row(zb_v, "zero bubble over a V of two chunks, in 1F1B's memory; idle 0 at f = b = w",
             by_rank<zb_v_program>),
    make_row(dualpipe, "from both ends, every stage held twice; idle (p/2-1)(fb+b-2w)",
             by_rank<dualpipe_program>),
    make_row(dualpipe_v, "DualPipe's order over a V of two chunks; idle (p-1)(fb+b-2w)",
             by_rank<dualpipe_v_program>),
    make_row(order, "spelled out by pipeline.order, a line a rank", by_rank<spelled_program>),
};
}  // namespace

std::span<const ScheduleRow> schedule_rows() { return rows; }

const ScheduleRow& schedule_row(ScheduleKind kind) { return rows[static_cast<size_t>(kind)]; }

ScheduleShape schedule_shape(const Scenario& s, double weight_memory) {
  ScheduleShape shape{.ranks = s.parallel.pp,
                      .chunks = s.parallel.chunks(),
                      .microbatches = static_cast<int>(s.batch.microbatches),
                      .group = s.parallel.microbatch_group,
                      .order = s.p2p_order,
                      .combined = s.moe_runtime.overlap_ep,
                      .placement = s.parallel.placement,
                      .spelled = s.order};
  if (s.costs) {
    // As in the papers, unless an order makes transfers block.
    shape.style = s.p2p_order == P2pOrder::together ? P2pStyle::asynchronous : P2pStyle::blocking;
    shape.times = {.forward = s.costs->forward_seconds,
                   .input = s.costs->backward_input_seconds,
                   .weight = s.costs->backward_weight_seconds,
                   .message = s.costs->p2p_seconds};
  } else if (s.schedule > ScheduleKind::interleaved) {
    shape.style = P2pStyle::asynchronous;  // their runtimes post messages as they are made
  } else if (s.overlap.overlap_p2p) {
    shape.style = s.overlap.p2p_warmup_flush ? P2pStyle::flush_overlapped : P2pStyle::overlapped;
    shape.wait_forward_send = s.overlap.deallocate_pipeline_outputs;
  } else {
    shape.style = s.overlap.batch_p2p ? P2pStyle::batched : P2pStyle::blocking;
  }
  shape.times.weight_memory = weight_memory;
  return shape;
}

}  // namespace stepsim
