#include "sim/parallel/schedule.h"

#include <array>

#include "sim/parallel/schedule_programs.h"

namespace stepsim {

namespace {
constexpr std::array<ScheduleRow, 3> rows{{
    {ScheduleKind::gpipe, "gpipe", "all forwards, then all backwards; bubble (p-1)/(m+p-1)",
     gpipe_program},
    {ScheduleKind::one_f_one_b, "1f1b",
     "one forward, one backward after a warm-up of p-1-rank; bubble (p-1)/(m+p-1)",
     one_f_one_b_program},
    {ScheduleKind::interleaved, "interleaved",
     "1F1B over v model chunks per rank; bubble (p-1)/(v*m+p-1)", interleaved_program},
}};
}  // namespace

std::span<const ScheduleRow> schedule_rows() { return rows; }

const ScheduleRow& schedule_row(ScheduleKind kind) {
  for (const ScheduleRow& row : rows)
    if (row.kind == kind) return row;
  return rows[0];
}

ScheduleShape schedule_shape(const Scenario& s) {
  ScheduleShape shape{.ranks = s.parallel.pp,
                      .chunks = s.parallel.chunks(),
                      .microbatches = static_cast<int>(s.batch.microbatches),
                      .group = s.parallel.microbatch_group,
                      .order = s.p2p_order,
                      .combined = s.moe_runtime.overlap_ep};
  if (s.costs) {
    // As in the papers, unless an order makes transfers block.
    shape.style = s.p2p_order == P2pOrder::together ? P2pStyle::asynchronous : P2pStyle::blocking;
  } else if (s.overlap.overlap_p2p) {
    shape.style = s.overlap.p2p_warmup_flush ? P2pStyle::flush_overlapped : P2pStyle::overlapped;
    shape.wait_forward_send = s.overlap.deallocate_pipeline_outputs;
  } else {
    shape.style = s.overlap.batch_p2p ? P2pStyle::batched : P2pStyle::blocking;
  }
  return shape;
}

}  // namespace stepsim
