// Point-to-point messages of the pipeline: matched by direction, chunk and microbatch, one FIFO per
// peer and direction.
#include <algorithm>
#include <cassert>

#include "sim/lower/step_writer.h"

namespace stepsim {

TaskId StepWriter::transfer(const MessageKey& key) {
  const auto chunks = static_cast<size_t>(s_.parallel.chunks());
  const auto microbatches = static_cast<size_t>(s_.batch.microbatches);
  const size_t slot =
      ((key.forward ? 0 : 1) * chunks + static_cast<size_t>(key.chunk)) * microbatches +
      static_cast<size_t>(key.microbatch);
  TaskId& task = messages_[key.receiver][slot];
  if (task != no_task) return task;
  const Label label{.op = key.forward ? OpKind::pp_forward : OpKind::pp_backward,
                    .pass = key.forward ? Pass::forward : Pass::backward,
                    .chunk = static_cast<uint8_t>(key.chunk),
                    .part = 0,
                    .layer = Label::no_layer,
                    .microbatch = static_cast<uint16_t>(std::min(key.microbatch, 65534))};
  const StreamId stream =
      stream_id(key.sender, key.forward ? Stream::pp_send_next : Stream::pp_send_prev);
  if (s_.costs) return task = builder_.add_unchained(s_.costs->p2p_seconds, stream, label.packed());
  const CollectiveCost& cost = message_costs_[2 * key.sender + (key.forward ? 0 : 1)];
  task = builder_.add_unchained(cost.duration.value, stream, label.packed());
  claim(task, key.sender, key.receiver, cost.latency.value, cost.nvlink_rate.value,
        cost.nic_rate.value);
  return task;
}

void StepWriter::post_send(const MessageKey& key, bool asynchronous) {
  const TaskId moved = transfer(key);
  const StreamId out =
      stream_id(key.sender, key.forward ? Stream::pp_send_next : Stream::pp_send_prev);
  const StreamId in =
      stream_id(key.receiver, key.forward ? Stream::pp_recv_prev : Stream::pp_recv_next);
  if (asynchronous) {
    // Receives are posted ahead: the transfer waits for nothing but its producer and its queue.
    builder_.add_edge(compute_tail(key.sender), moved);
    builder_.chain(out, moved);
    members_.push_back({moved, out, no_task});
    members_.push_back({moved, in, no_task});
    return;
  }
  const Label label{.op = OpKind::arrive,
                    .pass = key.forward ? Pass::forward : Pass::backward,
                    .chunk = static_cast<uint8_t>(key.chunk),
                    .part = 0,
                    .layer = Label::no_layer,
                    .microbatch = static_cast<uint16_t>(std::min(key.microbatch, 65534))};
  host_work(key.sender, {launch_seconds_}, label);
  const TaskId arrival = builder_.add_task(0, out, label.packed());
  builder_.add_edge(compute_tail(key.sender), arrival);
  if (host_)
    builder_.add_start_edge(builder_.tail(stream_id(key.sender, Stream::host)), arrival,
                            launch_seconds_);
  builder_.chain(out, moved);
  members_.push_back({moved, out, arrival});
}

void StepWriter::post_receive(const MessageKey& key) {
  const TaskId moved = transfer(key);
  const StreamId in =
      stream_id(key.receiver, key.forward ? Stream::pp_recv_prev : Stream::pp_recv_next);
  const Label label{.op = OpKind::arrive,
                    .pass = key.forward ? Pass::forward : Pass::backward,
                    .chunk = static_cast<uint8_t>(key.chunk),
                    .part = 0,
                    .layer = Label::no_layer,
                    .microbatch = static_cast<uint16_t>(std::min(key.microbatch, 65534))};
  host_work(key.receiver, {launch_seconds_}, label);
  const TaskId arrival = builder_.add_task(0, in, label.packed());
  const TaskId tail = compute_tail(key.receiver);
  if (tail != no_task) builder_.add_edge(tail, arrival);
  if (host_)
    builder_.add_start_edge(builder_.tail(stream_id(key.receiver, Stream::host)), arrival,
                            launch_seconds_);
  builder_.chain(in, moved);
  members_.push_back({moved, in, arrival});
}

}  // namespace stepsim
