#include <array>
#include <cassert>

#include "sim/parallel/schedule_programs.h"

namespace stepsim {

/// Within a ring of one rank chunks send to themselves, as Megatron-Core would.
bool ProgramWriter::moves(VirtualStep, std::optional<Place> other) const {
  return other && (other->rank != rank_ || shape_.placement == Placement::ring);
}

bool ProgramWriter::empty(const Exchange& x) const {
  return !(x.send_forward && has_output(*x.send_forward)) &&
         !(x.recv_forward && has_input(*x.recv_forward)) &&
         !(x.send_backward && has_input(*x.send_backward)) &&
         !(x.recv_backward && has_output(*x.recv_backward));
}

void ProgramWriter::post(const Exchange& x) {
  if (x.send_forward && has_output(*x.send_forward)) add(ActionKind::send_forward, *x.send_forward);
  if (x.recv_forward && has_input(*x.recv_forward)) add(ActionKind::recv_forward, *x.recv_forward);
  if (x.send_backward && has_input(*x.send_backward))
    add(ActionKind::send_backward, *x.send_backward);
  if (x.recv_backward && has_output(*x.recv_backward))
    add(ActionKind::recv_backward, *x.recv_backward);
}

void ProgramWriter::wait(const Exchange& x) {
  if (x.send_forward && has_output(*x.send_forward))
    add(ActionKind::wait_send_forward, *x.send_forward);
  if (x.recv_forward && has_input(*x.recv_forward))
    add(ActionKind::wait_recv_forward, *x.recv_forward);
  if (x.send_backward && has_input(*x.send_backward))
    add(ActionKind::wait_send_backward, *x.send_backward);
  if (x.recv_backward && has_output(*x.recv_backward))
    add(ActionKind::wait_recv_backward, *x.recv_backward);
}

/// Megatron-Core p2p_communication.py. `fixed`, as _communicate_shapes names them: send previous,
/// receive previous, send next, receive next. `even_odd`, as _p2p_ops: an even rank sends to the
/// next first and an odd one receives from the previous first, so every send meets its receive.
void ProgramWriter::block_in_order(const Exchange& x) {
  const Exchange to_next{.send_forward = x.send_forward},
      from_next{.recv_backward = x.recv_backward}, to_previous{.send_backward = x.send_backward},
      from_previous{.recv_forward = x.recv_forward};
  const std::array<const Exchange*, 4> fixed{&to_previous, &from_previous, &to_next, &from_next},
      even{&to_next, &from_previous, &to_previous, &from_next},
      odd{&from_previous, &to_next, &from_next, &to_previous};
  for (const Exchange* one : shape_.order == P2pOrder::fixed ? fixed
                             : rank_ % 2 == 0                ? even
                                                             : odd) {
    post(*one);
    wait(*one);
  }
}

void ProgramWriter::block(const Exchange& x) {
  if (empty(x)) return;
  if (shape_.order != P2pOrder::together) return block_in_order(x);
  post(x);
  wait(x);
  if (shape_.style == P2pStyle::batched) program_.push_back({ActionKind::sync, 0, 0});
}

Program with_messages(const ScheduleShape& shape, int rank, const Program& computations) {
  ProgramWriter writer(shape, rank);
  const auto exchange = [&](const Action& a, bool receive) {
    const VirtualStep s{a.microbatch, a.chunk};
    if (a.kind == ActionKind::backward_weight) return;
    const bool forward = a.kind == ActionKind::forward;
    ProgramWriter::Exchange x;
    (receive   ? forward ? x.recv_forward : x.recv_backward
     : forward ? x.send_forward
               : x.send_backward) = &s;
    writer.post(x);
    if (receive) writer.wait(x);
  };
  for (size_t first = 0, end = 0; first < computations.size(); first = end) {
    end = first + 1;
    if (computations[first].overlapped) ++end;  // a forward and the backward behind it
    assert(end <= computations.size());
    for (size_t i = first; i < end; ++i) exchange(computations[i], true);
    for (size_t i = first; i < end; ++i) writer.compute(computations[i]);
    for (size_t i = first; i < end; ++i) exchange(computations[i], false);
  }
  return writer.take();
}

}  // namespace stepsim
