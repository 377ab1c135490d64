// Zero bubble by hand (Qi et al. 2023, arXiv 2401.10241, sections 2 and 6): the weight half of a
// backward waits until there is time for it. A microbatch's activations are held until then, so the
// delay is also the memory.
//   ZB-H1: 1F1B's warm-up; on rank r the weight half comes r microbatches late. Every rank holds P.
//   ZB-H2: twice the warm-up, twice the delay. Every rank holds 2P-1.
//   ZB-V: two chunks a rank. Every rank holds 2P chunks, as much as 1F1B's first.
#include <algorithm>

#include "sim/parallel/schedule_programs.h"

namespace stepsim {

namespace {

Program zb_h(const ScheduleShape& shape, int rank, int warmup, int delay) {
  const int m = shape.microbatches;
  Program list;
  const auto add = [&](ActionKind kind, int i) {
    if (0 <= i && i < m) list.push_back({kind, 0, i});
  };
  for (int i = 0; i < std::min(warmup, m); ++i) add(ActionKind::forward, i);
  for (int i = 0; i < m; ++i) {
    add(ActionKind::forward, i + warmup);
    add(ActionKind::backward_input, i);
    add(ActionKind::backward_weight, i - delay);
  }
  for (int i = std::max(0, m - delay); i < m; ++i) add(ActionKind::backward_weight, i);
  return with_messages(shape, rank, list);
}

/// Computations of two chunks, each kind in order of microbatches; what lies beyond the last
/// microbatch is left out.
class TwoChunks {
 public:
  explicit TwoChunks(int microbatches) : m_(microbatches) {}
  void forward(int chunk) { add(ActionKind::forward, chunk, next_[0][chunk]++); }
  void input(int chunk) { add(ActionKind::backward_input, chunk, next_[1][chunk]++); }
  void weight(int chunk) { add(ActionKind::backward_weight, chunk, next_[2][chunk]++); }
  int forwards(int chunk) const { return next_[0][chunk]; }
  bool owes(int chunk) const { return next_[2][chunk] < next_[1][chunk]; }
  const Program& list() const { return list_; }

 private:
  void add(ActionKind kind, int chunk, int i) {
    if (i < m_) list_.push_back({kind, static_cast<uint8_t>(chunk), i});
  }
  int m_;
  int next_[3][2] = {};
  Program list_;
};

}  // namespace

Program zb_h1_program(const ScheduleShape& shape, int rank) {
  return zb_h(shape, rank, shape.ranks - 1 - rank, rank);
}

Program zb_h2_program(const ScheduleShape& shape, int rank) {
  return zb_h(shape, rank, 2 * (shape.ranks - 1 - rank), 2 * rank);
}

/// The order of PyTorch's ScheduleZBVZeroBubble (torch/distributed/pipelining/schedules.py). Few
/// microbatches are the beginning of the order for 2P-1.
Program zb_v_program(const ScheduleShape& shape, int rank) {
  const int ranks = shape.ranks, m = std::max(shape.microbatches, 2 * ranks - 1);
  TwoChunks list(shape.microbatches);
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) list.forward(0);
  for (int i = 0; i < rank; ++i) list.forward(1), list.forward(0);
  for (int i = 0; i < ranks - rank; ++i) list.forward(1), list.input(1), list.weight(1);
  while (list.forwards(1) < list.forwards(0) || list.forwards(0) < m) {
    if (list.forwards(0) < m) list.forward(0);
    list.input(0), list.weight(0);
    list.forward(1), list.input(1), list.weight(1);
  }
  for (int i = 0; i < rank; ++i) list.input(0), list.input(1);
  for (int i = 0; i < ranks - rank; ++i) list.input(0), list.weight(0);
  while (list.owes(1)) list.weight(1);
  while (list.owes(0)) list.weight(0);
  return with_messages(shape, rank, list.list());
}

}  // namespace stepsim
