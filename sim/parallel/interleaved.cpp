// Interleaved 1F1B (Megatron-Core forward_backward_pipelining_with_interleaving): virtual steps in
// groups of N microbatches, warm-up 2(P-1-p) + (VP-1)N. Rank 0 (last rank, backward) gets the
// message of the virtual step that the other end ran P-1 steps before, one chunk on; every other
// rank gets the input of its own next step.
#include <algorithm>
#include <optional>

#include "sim/parallel/schedule_programs.h"

namespace stepsim {

std::vector<VirtualStep> interleaved_order(int chunks, int microbatches, int group) {
  std::vector<VirtualStep> order;
  order.reserve(static_cast<size_t>(chunks) * static_cast<size_t>(microbatches));
  for (int first = 0; first < microbatches; first += group)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int mb = first; mb < std::min(first + group, microbatches); ++mb)
        order.push_back({mb, chunk});
  return order;
}

int interleaved_warmup(const ScheduleShape& shape, int rank) {
  const int group = shape.group > 0 ? shape.group : shape.ranks;
  return std::min(2 * (shape.ranks - 1 - rank) + (shape.chunks - 1) * group + shape.combined,
                  shape.microbatches * shape.chunks);
}

namespace {

/// The virtual steps of one rank and the messages that belong to them.
struct Steps {
  Steps(const ScheduleShape& shape, int rank)
      : ranks(shape.ranks),
        chunks(shape.chunks),
        rank(rank),
        forward(interleaved_order(shape.chunks, shape.microbatches,
                                  shape.group > 0 ? shape.group : shape.ranks)),
        backward(forward) {
    for (VirtualStep& s : backward) s.chunk = chunks - 1 - s.chunk;
  }
  int count() const { return static_cast<int>(forward.size()); }
  /// What is received with the exchange after forward step k.
  std::optional<VirtualStep> forward_after(int k) const {
    if (k + 1 >= count()) return {};
    if (rank > 0) return forward[static_cast<size_t>(k + 1)];
    if (k < ranks - 1) return {};
    const VirtualStep s = forward[static_cast<size_t>(k - (ranks - 1))];
    if (s.chunk == chunks - 1) return {};
    return VirtualStep{s.microbatch, s.chunk + 1};
  }
  /// What is received with the exchange after backward step k.
  std::optional<VirtualStep> backward_after(int k) const {
    if (k + 1 >= count()) return {};
    if (rank < ranks - 1) return backward[static_cast<size_t>(k + 1)];
    if (k < ranks - 1) return {};
    const VirtualStep s = backward[static_cast<size_t>(k - (ranks - 1))];
    if (s.chunk == 0) return {};
    return VirtualStep{s.microbatch, s.chunk - 1};
  }

  int ranks, chunks, rank;
  std::vector<VirtualStep> forward, backward;
};

const VirtualStep* pointer(const std::optional<VirtualStep>& s) { return s ? &*s : nullptr; }

/// One forward, one backward after the warm-up.
Program alternating(const Steps& steps, int warmup) {
  Program list;
  const auto add = [&](ActionKind kind, VirtualStep s) {
    list.push_back({kind, static_cast<uint8_t>(s.chunk), s.microbatch});
  };
  for (int k = 0; k < warmup; ++k) add(ActionKind::forward, steps.forward[static_cast<size_t>(k)]);
  for (int k = 0; k < steps.count(); ++k) {
    if (k + warmup < steps.count())
      add(ActionKind::forward, steps.forward[static_cast<size_t>(k + warmup)]);
    add(ActionKind::backward, steps.backward[static_cast<size_t>(k)]);
  }
  return list;
}

/// Every exchange is waited for; the steady state exchanges both directions at once.
Program blocking(ProgramWriter writer, const Steps& steps, int warmup) {
  const int total = steps.count();
  writer.block({.recv_forward = &steps.forward.front()});
  for (int k = 0; k < warmup; ++k) {
    const VirtualStep f = steps.forward[static_cast<size_t>(k)];
    writer.forward(f);
    const auto next = steps.forward_after(k);
    const bool turn = k + 1 == warmup && warmup < total;
    writer.block({.send_forward = &f,
                  .recv_forward = pointer(next),
                  .recv_backward = turn ? &steps.backward.front() : nullptr});
  }
  for (int k = 0; k < total - warmup; ++k) {
    const VirtualStep f = steps.forward[static_cast<size_t>(k + warmup)];
    const VirtualStep b = steps.backward[static_cast<size_t>(k)];
    writer.forward(f);
    writer.backward(b);
    const auto next_f = steps.forward_after(k + warmup), next_b = steps.backward_after(k);
    writer.block({&f, pointer(next_f), &b, pointer(next_b)});
  }
  if (warmup == total) writer.block({.recv_backward = &steps.backward.front()});
  for (int k = total - warmup; k < total; ++k) {
    const VirtualStep b = steps.backward[static_cast<size_t>(k)];
    writer.backward(b);
    const auto next = steps.backward_after(k);
    writer.block({.send_backward = &b, .recv_backward = pointer(next)});
  }
  return writer.take();
}

/// overlap_p2p_comm: asynchronous steady state; warm-up and cool-down block unless `flush`.
Program overlapped(ProgramWriter writer, const Steps& steps, int warmup,
                   const ScheduleShape& shape) {
  const bool flush = shape.style == P2pStyle::flush_overlapped, combined = shape.combined;
  const bool wait_forward_send = shape.wait_forward_send;
  const int total = steps.count();
  const bool first = steps.rank == 0, last = steps.rank == steps.ranks - 1;
  writer.block({.recv_forward = &steps.forward.front()});
  for (int k = 0; k < warmup; ++k) {
    const VirtualStep f = steps.forward[static_cast<size_t>(k)];
    const auto next = steps.forward_after(k);
    writer.wait({.recv_forward = &f});
    if (flush && !first) writer.post({.recv_forward = pointer(next)});
    writer.forward(f);
    if (!flush) {
      writer.block({.send_forward = &f, .recv_forward = pointer(next)});
    } else {
      writer.post({.send_forward = &f, .recv_forward = first ? pointer(next) : nullptr});
      if (wait_forward_send) writer.wait({.send_forward = &f});
    }
    if (k + 1 == warmup && warmup < total) writer.post({.recv_backward = &steps.backward.front()});
  }
  for (int k = 0; k < total - warmup; ++k) {
    const VirtualStep f = steps.forward[static_cast<size_t>(k + warmup)];
    const VirtualStep b = steps.backward[static_cast<size_t>(k)];
    const auto next_f = steps.forward_after(k + warmup), next_b = steps.backward_after(k);
    writer.wait({.recv_forward = &f});
    if (combined) {
      writer.wait({.recv_backward = &b});
      writer.forward(f);
      writer.backward(b);
      writer.post({.send_forward = &f, .recv_forward = pointer(next_f)});
      writer.post({.send_backward = &b, .recv_backward = pointer(next_b)});
      continue;
    }
    writer.forward(f);
    writer.post({.send_forward = &f, .recv_forward = pointer(next_f)});
    if (wait_forward_send) {
      writer.wait({.send_forward = &f});
    } else if (k > 0) {
      writer.wait({.send_forward = &steps.forward[static_cast<size_t>(k + warmup - 1)]});
    }
    writer.wait({.recv_backward = &b});
    writer.backward(b);
    writer.post({.send_backward = &b, .recv_backward = pointer(next_b)});
    if (k > 0) writer.wait({.send_backward = &steps.backward[static_cast<size_t>(k - 1)]});
  }
  if (warmup == total) writer.post({.recv_backward = &steps.backward.front()});
  for (int k = total - warmup; k < total; ++k) {
    const VirtualStep b = steps.backward[static_cast<size_t>(k)];
    const auto next = steps.backward_after(k);
    writer.wait({.recv_backward = &b});
    if (flush && !last) writer.post({.recv_backward = pointer(next)});
    writer.backward(b);
    if (!flush)
      writer.block({.send_backward = &b, .recv_backward = pointer(next)});
    else
      writer.post({.send_backward = &b, .recv_backward = last ? pointer(next) : nullptr});
  }
  return writer.take();
}

}  // namespace

Program interleaved_program(const ScheduleShape& shape, int rank) {
  const Steps steps(shape, rank);
  const int warmup = interleaved_warmup(shape, rank);
  ProgramWriter writer(shape, rank);
  switch (shape.style) {
    case P2pStyle::asynchronous:
      return with_messages(shape, rank, alternating(steps, warmup));
    case P2pStyle::blocking:
    case P2pStyle::batched:
      return blocking(std::move(writer), steps, warmup);
    case P2pStyle::overlapped:
    case P2pStyle::flush_overlapped:
      return overlapped(std::move(writer), steps, warmup, shape);
  }
  return {};
}

}  // namespace stepsim
