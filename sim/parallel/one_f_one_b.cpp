// Plain 1F1B and GPipe (Megatron-Core forward_backward_pipelining_without_interleaving): the two
// differ in the number of warm-up forwards only, min(P-1-p, M) against M.
#include <algorithm>

#include "sim/parallel/schedule_programs.h"

namespace stepsim {

namespace {

Program one_by_one(int microbatches, int warmup) {
  Program list;
  const auto add = [&](ActionKind kind, int i) { list.push_back({kind, 0, i}); };
  for (int i = 0; i < warmup; ++i) add(ActionKind::forward, i);
  for (int i = 0; i < microbatches; ++i) {
    if (i + warmup < microbatches) add(ActionKind::forward, i + warmup);
    add(ActionKind::backward, i);
  }
  return list;
}

Program blocking(ProgramWriter writer, int microbatches, int warmup) {
  const int steady = microbatches - warmup;
  for (int i = 0; i < warmup; ++i) {
    const VirtualStep s{i, 0};
    writer.block({.recv_forward = &s});
    writer.forward(s);
    writer.block({.send_forward = &s});
  }
  if (steady > 0) {
    const VirtualStep s{warmup, 0};
    writer.block({.recv_forward = &s});
  }
  for (int i = 0; i < steady; ++i) {
    const VirtualStep f{warmup + i, 0}, b{i, 0}, next{warmup + i + 1, 0};
    writer.forward(f);
    writer.block({.send_forward = &f, .recv_backward = &b});
    writer.backward(b);
    if (i + 1 < steady)
      writer.block({.recv_forward = &next, .send_backward = &b});
    else
      writer.block({.send_backward = &b});
  }
  for (int i = steady; i < microbatches; ++i) {
    const VirtualStep s{i, 0};
    writer.block({.recv_backward = &s});
    writer.backward(s);
    writer.block({.send_backward = &s});
  }
  return writer.take();
}

Program program(const ScheduleShape& shape, int rank, int warmup) {
  return shape.style == P2pStyle::blocking || shape.style == P2pStyle::batched
             ? blocking(ProgramWriter(shape, rank), shape.microbatches, warmup)
             : with_messages(shape, rank, one_by_one(shape.microbatches, warmup));
}

}  // namespace

Program gpipe_program(const ScheduleShape& shape, int rank) {
  return program(shape, rank, shape.microbatches);
}

Program one_f_one_b_program(const ScheduleShape& shape, int rank) {
  return program(shape, rank,
                 std::min(shape.ranks - 1 - rank + shape.combined, shape.microbatches));
}

}  // namespace stepsim
