// One function a schedule, each in its own file; the table is in schedule.cpp.
#pragma once

#include "sim/parallel/schedule.h"

namespace stepsim {

Program gpipe_program(const ScheduleShape& shape, int rank);
Program one_f_one_b_program(const ScheduleShape& shape, int rank);
Program interleaved_program(const ScheduleShape& shape, int rank);

/// Appends actions; knows which messages exist at the ends of the pipeline.
class ProgramWriter {
 public:
  ProgramWriter(const ScheduleShape& shape, int rank) : shape_(shape), rank_(rank) {}

  bool first() const { return rank_ == 0; }
  bool last() const { return rank_ == shape_.ranks - 1; }
  /// False where the message would enter or leave the pipeline.
  bool has_input(VirtualStep s) const { return !(first() && s.chunk == 0); }
  bool has_output(VirtualStep s) const { return !(last() && s.chunk == shape_.chunks - 1); }

  void add(ActionKind kind, VirtualStep s) {
    program_.push_back({kind, static_cast<uint8_t>(s.chunk), s.microbatch});
  }
  void forward(VirtualStep s) { add(ActionKind::forward, s); }
  void backward(VirtualStep s) { add(ActionKind::backward, s); }
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
  bool empty(const Exchange& x) const;
  void block_in_order(const Exchange& x);
  const ScheduleShape& shape_;
  int rank_;
  Program program_;
};

}  // namespace stepsim
