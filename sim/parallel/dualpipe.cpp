// DualPipe (DeepSeek-V3 2024, arXiv 2412.19437, section 3.2.1) and its V: a rank's two chunks fill
// each other's bubbles, a forward of one beside the backward of the other. The eight parts of an
// order, and how often each runs, are those of deepseek-ai/DualPipe (dualpipe.py, dualpipev.py):
// there a rank's near chunk is the one whose pipeline begins on its side.
#include <algorithm>
#include <deque>

#include "sim/parallel/schedule_programs.h"

namespace stepsim {

namespace {

/// Computations of the near (0) and the far (1) chunk of one rank.
class DualOrder {
 public:
  DualOrder(const ScheduleShape& shape, bool swapped) : swapped_(swapped) {
    for (int c : {0, 1})
      next_[0][c] = next_[1][c] = shape.pipeline().microbatches(c, shape.microbatches).first;
  }
  void forward(int side, bool overlapped = false) {
    const int c = chunk(side);
    list_.push_back({ActionKind::forward, static_cast<uint8_t>(c), next_[0][c]++, overlapped});
  }
  /// `late`: the weight half joins the queue.
  void backward(int side, bool late = false, bool overlapped = false) {
    const int c = chunk(side);
    Action a{ActionKind::backward, static_cast<uint8_t>(c), next_[1][c]++, overlapped};
    if (late) {
      a.kind = ActionKind::backward_weight;
      owed_.push_back(a);
      a.kind = ActionKind::backward_input;
    }
    list_.push_back(a);
  }
  void both(int forward_side, int backward_side) {
    forward(forward_side, true);
    backward(backward_side, false, true);
  }
  void weight() {
    list_.push_back(owed_.front());
    owed_.pop_front();
  }
  const Program& list() const { return list_; }

 private:
  int chunk(int side) const { return swapped_ ? 1 - side : side; }
  bool swapped_;
  int next_[2][2] = {};  ///< microbatch, by forward or backward and chunk
  std::deque<Action> owed_;
  Program list_;
};

/// `place`: distance from the end of the pipeline at which the near chunk begins; `ranks` that a
/// pipeline crosses until its two chunks meet; `microbatches` of one chunk.
Program dual_order(DualOrder order, int ranks, int place, int microbatches) {
  const int beyond = ranks - place - 1;
  for (int i = 0; i < 2 * beyond; ++i) order.forward(0);
  for (int i = 0; i <= place; ++i) order.forward(0), order.forward(1);
  for (int i = 0; i < beyond; ++i) order.backward(1, true), order.weight(), order.forward(1);
  for (int i = 0; i < microbatches - 2 * ranks + place + 1; ++i) {
    if (i == 0 && beyond == 0)
      order.forward(0), order.backward(1);  // apart: the far one's gradient goes out sooner
    else
      order.both(0, 1);
    order.both(1, 0);
  }
  for (int i = 0; i < beyond; ++i) order.backward(1), order.both(1, 0);
  for (int i = 0; i <= place; ++i) {
    // The second half of these 2(place+1) backwards is split.
    order.backward(1, 2 * i >= place + 1);
    order.backward(0, 2 * i + 1 >= place + 1);
  }
  for (int i = 0; i < beyond; ++i) order.weight(), order.backward(0, true);
  for (int i = 0; i <= place; ++i) order.weight();
  return order.list();
}

}  // namespace

Program dualpipe_program(const ScheduleShape& shape, int rank) {
  const int half = shape.ranks / 2;
  const bool second = rank >= half;
  return with_messages(shape, rank,
                       dual_order(DualOrder(shape, second), half,
                                  second ? shape.ranks - 1 - rank : rank, shape.microbatches / 2));
}

Program dualpipe_v_program(const ScheduleShape& shape, int rank) {
  return with_messages(shape, rank,
                       dual_order(DualOrder(shape, false), shape.ranks, rank, shape.microbatches));
}

}  // namespace stepsim
