// Point-to-point messages of the pipeline: matched by direction, chunk and microbatch, one FIFO per
// peer and direction.
#include <algorithm>
#include <cassert>

#include "sim/lower/step_writer.h"

namespace stepsim {

namespace {
Label message_label(OpKind op, const MessageKey& key) {
  return {.op = op,
          .pass = key.forward ? Pass::forward : Pass::backward,
          .chunk = static_cast<uint8_t>(key.chunk),
          .part = 0,
          .layer = Label::no_layer,
          .microbatch = saturated_microbatch(key.microbatch)};
}
}  // namespace

TaskId StepWriter::transfer(const MessageKey& key) {
  const auto chunks = static_cast<size_t>(s_.parallel.chunks());
  const auto microbatches = static_cast<size_t>(s_.batch.microbatches);
  const size_t slot =
      ((key.forward ? 0 : 1) * chunks + static_cast<size_t>(key.chunk)) * microbatches +
      static_cast<size_t>(key.microbatch);
  TaskId& task = messages_[key.receiver][slot];
  if (task != no_task) return task;
  const Label label = message_label(key.forward ? OpKind::pp_forward : OpKind::pp_backward, key);
  const StreamId stream =
      stream_id(key.sender, key.forward ? Stream::pp_send_next : Stream::pp_send_prev);
  if (s_.costs) {
    // Both ways between two virtual stages take the time of the link out of the earlier one.
    const int pp = s_.parallel.pp, rank = mesh_.coordinates(folding_.ranks[key.receiver]).pp;
    const int stage = key.chunk * pp + rank, link = key.forward ? stage - 1 : stage;
    return task = builder_.add_unchained(s_.costs->p2p_seconds[static_cast<size_t>(link)], stream,
                                         label.packed());
  }
  const size_t way = 2 * key.sender + (key.forward ? 0 : 1);
  const CollectiveCost& cost = message_costs_[way];
  task = builder_.add_unchained(cost.duration.value, stream, label.packed());
  links_->claim(task, key.sender, key.receiver, cost.latency.value, cost.nvlink_rate.value,
                cost.nic_rate.value, message_routes_[way]);
  return task;
}

TaskId StepWriter::arrive(uint32_t device, StreamId stream, const MessageKey& key) {
  const Label label = message_label(OpKind::arrive, key);
  host_work(device, {launch_seconds_}, label);
  const TaskId arrival = builder_.add_task(0, stream, label.packed());
  if (const TaskId tail = compute_tail(device); tail != no_task) builder_.add_edge(tail, arrival);
  for (TaskId p : pending_[device]) builder_.add_edge(p, arrival);
  if (host_)
    builder_.add_start_edge(builder_.tail(stream_id(device, Stream::host)), arrival,
                            launch_seconds_);
  return arrival;
}

void StepWriter::post_send(const MessageKey& key, bool asynchronous) {
  const TaskId moved = transfer(key);
  const StreamId out =
      stream_id(key.sender, key.forward ? Stream::pp_send_next : Stream::pp_send_prev);
  const StreamId in =
      stream_id(key.receiver, key.forward ? Stream::pp_recv_prev : Stream::pp_recv_next);
  TaskId arrival = no_task;
  if (asynchronous) {
    // Receives are posted ahead: the transfer waits for nothing but its producer and its queue.
    builder_.add_edge(compute_tail(key.sender), moved);
    members_.push_back({moved, in, no_task});
  } else {
    arrival = arrive(key.sender, out, key);
  }
  builder_.chain(out, moved);
  members_.push_back({moved, out, arrival});
}

void StepWriter::post_receive(const MessageKey& key) {
  const TaskId moved = transfer(key);
  const StreamId in =
      stream_id(key.receiver, key.forward ? Stream::pp_recv_prev : Stream::pp_recv_next);
  const TaskId arrival = arrive(key.receiver, in, key);
  builder_.chain(in, moved);
  members_.push_back({moved, in, arrival});
}

}  // namespace stepsim
