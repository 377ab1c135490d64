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
/// Row of a sender's costs: to the next and to the previous rank.
size_t way(const MessageKey& key) { return 2 * key.sender + (key.to_next ? 0 : 1); }
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
      stream_id(key.sender, key.to_next ? Stream::pp_send_next : Stream::pp_send_prev);
  if (s_.costs) {
    // Both ways between two virtual stages take the time of the link out of the earlier one.
    const int rank = mesh_.coordinates(folding_.ranks[key.receiver]).pp;
    const int stage = s_.parallel.pipeline().virtual_stage({rank, key.chunk});
    const int link = key.forward ? stage - 1 : stage;
    return task = builder_.add_unchained(s_.costs->p2p_seconds[static_cast<size_t>(link)], stream,
                                         label.packed());
  }
  task = builder_.add_unchained(message_costs_[way(key)].duration.value, stream, label.packed());
  return task;
}

/// What a message holds of each of its two devices.
TransferLoad StepWriter::message_load(const MessageKey& key) const {
  return s_.costs ? TransferLoad{} : yielding(load_of(message_costs_[way(key)]), false);
}

TaskId StepWriter::arrive(uint32_t device, StreamId stream, const MessageKey& key,
                          const TransferLoad& load) {
  const Label label = message_label(OpKind::arrive, key);
  host_work(device, {launch_seconds_}, label);
  const TaskId arrival = builder_.add_task(0, stream, label.packed());
  claim({arrival, arrival}, 0, {.arrival = resources_->arrival(device, load)});
  if (const TaskId tail = compute_tail(device); tail != no_task) builder_.add_edge(tail, arrival);
  for (TaskId p : pending_[device]) builder_.add_edge(p, arrival);
  if (host_)
    builder_.add_start_edge(builder_.tail(stream_id(device, Stream::host)), arrival,
                            launch_seconds_);
  issue(device, stream_of(stream), arrival);
  return arrival;
}

void StepWriter::post_send(const MessageKey& key, bool asynchronous) {
  const TaskId moved = transfer(key);
  const StreamId out =
      stream_id(key.sender, key.to_next ? Stream::pp_send_next : Stream::pp_send_prev);
  const StreamId in =
      stream_id(key.receiver, key.to_next ? Stream::pp_recv_prev : Stream::pp_recv_next);
  TaskId arrival = no_task;
  if (!s_.costs) {
    const CollectiveCost& cost = message_costs_[way(key)];
    claim({moved, moved}, cost.latency.value,
          {.transfer = resources_->transfer(key.sender, key.receiver, message_load(key),
                                            asynchronous ? Held::while_running : Held::from_arrival,
                                            message_routes_[way(key)])});
  }
  if (asynchronous) {
    // Receives are posted ahead: the transfer waits for nothing but its producer and its queue.
    builder_.add_edge(compute_tail(key.sender), moved);
    issue(key.sender, stream_of(out), moved);
    members_.push_back({moved, in, no_task});
  } else {
    arrival = arrive(key.sender, out, key, message_load(key));
  }
  builder_.chain(out, moved);
  members_.push_back({moved, out, arrival});
}

void StepWriter::post_receive(const MessageKey& key) {
  const TaskId moved = transfer(key);
  const StreamId in =
      stream_id(key.receiver, key.to_next ? Stream::pp_recv_prev : Stream::pp_recv_next);
  const TaskId arrival = arrive(key.receiver, in, key, message_load(key));
  builder_.chain(in, moved);
  members_.push_back({moved, in, arrival});
}

}  // namespace stepsim
