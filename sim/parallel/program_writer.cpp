#include "sim/parallel/schedule_programs.h"

namespace stepsim {

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

void ProgramWriter::block(const Exchange& x) {
  if (empty(x)) return;
  post(x);
  wait(x);
  if (shape_.style == P2pStyle::batched) program_.push_back({ActionKind::sync, 0, 0});
}

}  // namespace stepsim
