// One function a schedule, each in its own file; the table is in schedule.cpp.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "sim/parallel/schedule.h"

namespace stepsim {

Program gpipe_program(const ScheduleShape& shape, int rank);
Program one_f_one_b_program(const ScheduleShape& shape, int rank);
Program interleaved_program(const ScheduleShape& shape, int rank);
Program zb_h1_program(const ScheduleShape& shape, int rank);
Program zb_h2_program(const ScheduleShape& shape, int rank);
Program zb_v_program(const ScheduleShape& shape, int rank);
Program dualpipe_program(const ScheduleShape& shape, int rank);
Program dualpipe_v_program(const ScheduleShape& shape, int rank);
Program spelled_program(const ScheduleShape& shape, int rank);
/// The memory-limited heuristic: at most `microbatches_held` times a microbatch's activations.
std::vector<Program> searched_programs(const ScheduleShape& shape, int microbatches_held);
/// Computations with their messages as the papers draw them: a message leaves when it is made, and
/// nobody waits but its consumer. Those of one overlapped block leave together.
Program with_messages(const ScheduleShape& shape, int rank, const Program& computations);

/// Appends actions; knows which messages exist at the ends of the pipeline.
class ProgramWriter {
 public:
  ProgramWriter(const ScheduleShape& shape, int rank) : shape_(shape), rank_(rank) {}

  /// False where the message would enter or leave the pipeline, or stay on this rank.
  bool has_input(VirtualStep s) const {
    return moves(s, shape_.pipeline().previous({rank_, s.chunk}));
  }
  bool has_output(VirtualStep s) const {
    return moves(s, shape_.pipeline().next({rank_, s.chunk}));
  }

  void add(ActionKind kind, VirtualStep s) {
    program_.push_back({kind, static_cast<uint8_t>(s.chunk), s.microbatch});
  }
  void forward(VirtualStep s) { add(ActionKind::forward, s); }
  void backward(VirtualStep s) { add(ActionKind::backward, s); }
  void compute(const Action& a) { program_.push_back(a); }
  /// Messages of one exchange, posted together; steps without such a message are passed over.
  struct Exchange {
    const VirtualStep* send_forward = nullptr;
    const VirtualStep* recv_forward = nullptr;
    const VirtualStep* send_backward = nullptr;
    const VirtualStep* recv_backward = nullptr;
  };
  void post(const Exchange& x);
  void wait(const Exchange& x);
  /// Post, wait and, when batched, synchronise the device; with an order, message by message.
  void block(const Exchange& x);
  Program take() { return std::move(program_); }

 private:
  bool moves(VirtualStep s, std::optional<Place> other) const;
  bool empty(const Exchange& x) const;
  void block_in_order(const Exchange& x);
  const ScheduleShape& shape_;
  int rank_;
  Program program_;
};

}  // namespace stepsim
