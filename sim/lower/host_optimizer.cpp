#include "sim/lower/host_optimizer.h"

#include "sim/lower/offload.h"

namespace stepsim {

namespace {
/// Parameters that follow each other through copy, update and copy; there are hundreds, and their
/// sizes differ.
constexpr int overlapped_pieces = 32;
constexpr double fp32_bytes = 4;
}  // namespace

HostUpdate::HostUpdate(const Scenario& scenario, StepWriter& writer, uint32_t device,
                       double elements, Label label)
    : s_(scenario),
      w_(writer),
      device_(device),
      elements_(elements),
      label_(label),
      pieces_(scenario.host_optimizer.overlap ? overlapped_pieces : 1) {}

/// A piece of all gradients or weights, in fp32.
void HostUpdate::copy(Stream stream, OpKind op) {
  label_.op = op;
  w_.copy(device_, stream, host_copy_cost(s_.cluster.device, {elements_ * fp32_bytes / pieces_}),
          label_);
}

void HostUpdate::send_gradients() {
  if (elements_ <= 0) return;
  for (int i = 0; i < pieces_; ++i) {
    copy(Stream::d2h, OpKind::offload_out);
    sent_.push_back(w_.builder().tail(stream_id(device_, Stream::d2h)));
  }
}

void HostUpdate::update() {
  const Bytes moved{elements_ * host_adam_bytes / pieces_};
  for (const TaskId gradients : sent_) {
    label_.op = OpKind::step_overhead;
    const TaskId updated = w_.builder().add_task((moved / s_.cluster.device.host_adam).value,
                                                 stream_id(device_, Stream::host), label_.packed());
    w_.builder().add_edge(gradients, updated);
    copy(Stream::h2d, OpKind::offload_in);
    w_.builder().add_edge(updated, w_.builder().tail(stream_id(device_, Stream::h2d)));
  }
  if (!sent_.empty()) w_.wait(device_, w_.builder().tail(stream_id(device_, Stream::h2d)));
}

}  // namespace stepsim
