#include "sim/lower/step_writer.h"

#include <algorithm>
#include <cassert>

namespace stepsim {

namespace {

constexpr size_t at(Meeting m) { return static_cast<size_t>(m); }

Meeting meeting_of(const TemplateOp& t) {
  if (t.group != Meeting::count) return t.group;
  const OpKind op = t.op;
  if (op == OpKind::etp_all_gather || op == OpKind::etp_reduce_scatter) return Meeting::etp;
  switch (row(op).comm) {
    case CommClass::cp:
      return Meeting::cp;
    case CommClass::ep:
      return Meeting::etp_ep;
    default:
      return Meeting::tp;
  }
}

/// Streams that the layout can launch on.
bool in_use(Stream stream, const Parallelism& p, bool offloads) {
  switch (stream) {
    case Stream::tp:
      return p.tp > 1;
    case Stream::cp:
      return p.cp > 1;
    case Stream::pp_send_next:
    case Stream::pp_recv_prev:
    case Stream::pp_send_prev:
    case Stream::pp_recv_next:
      return p.pp > 1;
    case Stream::ep:
    case Stream::edp:
      return p.experts;
    case Stream::d2h:
    case Stream::h2d:
      return offloads;
    case Stream::host:
      return false;
    case Stream::compute:
    case Stream::dp:
      return true;
  }
  return true;
}

}  // namespace

StepWriter::StepWriter(const Scenario& scenario, const Mesh& mesh, const Folding& folding,
                       const Fabric& fabric)
    : s_(scenario),
      mesh_(mesh),
      folding_(folding),
      host_(!scenario.costs && !scenario.full_iteration_graph),
      builder_(static_cast<uint32_t>(folding.ranks.size()) * stream_count),
      pending_(folding.ranks.size()),
      peers_(folding.ranks.size()),
      placements_(folding.ranks.size()),
      messages_(folding.ranks.size()),
      launch_seconds_(scenario.cluster.stack.launch.value) {
  for (int rank : folding.ranks) faults_.push_back(scenario.faults.of(rank));
  for (auto& by_leader : meets_) by_leader.resize(folding.ranks.size());
  const size_t per_device = 2 * static_cast<size_t>(scenario.parallel.chunks()) *
                            static_cast<size_t>(scenario.batch.microbatches);
  if (scenario.parallel.pp > 1)
    for (auto& m : messages_) m.assign(per_device, no_task);
  place_groups(fabric);
  resources_ = std::make_unique<Resources>(scenario.cluster, faults_, shared_kinds(), builder_);
  find_routes(fabric);
  // The streams in use take the launch queues in turn; with one each nothing waits for a queue.
  const auto queues = static_cast<size_t>(scenario.launch_env.max_connections);
  const Parallelism& p = scenario.parallel;
  size_t used = 0;
  for (uint32_t i = 0; i < stream_count; ++i)
    if (in_use(static_cast<Stream>(i), p,
               scenario.offloaded_layers > 0 || scenario.module_offload.any() ||
                   scenario.host_optimizer.any()))
      queue_of_[i] = used++ % queues;
  if (host_ && queues < used)
    issued_.assign(device_count(), std::vector(queues, std::pair(no_task, Stream::compute)));
}

void StepWriter::drain_pending(uint32_t device, TaskId task) {
  for (TaskId p : pending_[device]) builder_.add_edge(p, task);
  pending_[device].clear();
}

Entered StepWriter::enter(uint32_t device, Meeting meeting, StreamId stream, double duration,
                          Label label) {
  Peers& peers = peers_[device][at(meeting)];
  if (peers.count < 2) {
    const TaskId task = builder_.add_task(duration, stream, label.packed());
    return {task, task};
  }
  Label mark = label;
  mark.op = OpKind::arrive;
  const TaskId entry = builder_.add_task(0, stream, mark.packed());
  std::vector<TaskId>& meets = meets_[at(meeting)][peers.leader];
  if (peers.sequence == meets.size()) {
    mark.op = OpKind::meet;
    meets.push_back(builder_.add_task(0, no_stream, mark.packed()));
  }
  const TaskId meet = meets[peers.sequence++];
  builder_.add_edge(entry, meet);
  const TaskId moved = builder_.add_task(duration, stream, label.packed());
  builder_.add_edge(meet, moved);
  members_.push_back({moved, stream, entry});
  return {entry, moved};
}

CollectiveClaims StepWriter::claims_of(uint32_t device, Meeting meeting, TransferLoad load) {
  const bool meets = peers_[device][at(meeting)].count > 1;
  return {.transfer = resources_->transfer(device, device, load,
                                           meets ? Held::from_arrival : Held::while_running,
                                           routes_[device][at(meeting)]),
          .arrival = meets ? resources_->arrival(device, load) : no_claims};
}

/// Who places its blocks first when a kernel and a collective become ready at one instant: with one
/// launch queue what was issued first, else the kernel, which follows on its own stream while the
/// collective waits for an event. Transformer Engine orders userbuffers first on Hopper
/// (common/comm_gemm_overlap); on Blackwell Megatron asks for no order (arguments.py).
TransferLoad StepWriter::yielding(TransferLoad load, bool userbuffers) const {
  const std::string& generation = s_.cluster.device.architecture;
  const bool ordered = generation == "blackwell" || (userbuffers && generation == "hopper");
  load.yields = s_.launch_env.max_connections > 1 && !ordered;
  return load;
}

const std::vector<CollectiveClaims>& StepWriter::claims_of(uint32_t device, const Template& t) {
  const auto [found, added] = template_claims_.try_emplace({&t, device});
  if (!added) return found->second;
  for (const TemplateOp& op : t.ops) {
    if (op.stream == Stream::compute) {
      found->second.push_back({.transfer = resources_->kernel(device, op.memory_rate, op.runner)});
      continue;
    }
    const TransferLoad load{op.nvlink_rate, op.nic_rate, op.memory_rate, op.sms};
    TransferLoad behind = yielding(load, op.userbuffers);
    // model_chunk_schedule_plan.py, set_streams: the all-to-alls' stream outranks the kernels'.
    if (s_.moe_runtime.high_priority_stream && row(op.op).comm == CommClass::ep)
      behind.yields = false;
    found->second.push_back(claims_of(device, meeting_of(op), behind));
  }
  return found->second;
}

void StepWriter::claim(const Entered& entered, double latency_seconds,
                       const CollectiveClaims& claims) {
  if (claims.transfer != no_claims)
    builder_.set_claims(entered.moved, latency_seconds, claims.transfer);
  if (claims.arrival != no_claims) builder_.set_claims(entered.entry, 0, claims.arrival);
}

void StepWriter::issue(uint32_t device, Stream stream, TaskId task) {
  if (issued_.empty()) return;
  auto& queues = issued_[device];
  auto& [last, last_stream] = queues[queue_of_[static_cast<size_t>(stream)]];
  // Within a stream the order is there already.
  if (last != no_task && last_stream != stream) builder_.add_start_edge(last, task, 0);
  last = task;
  last_stream = stream;
}

TaskId StepWriter::launch(uint32_t device, const LaunchSegment& segment, Label base) {
  const StreamId stream = stream_id(device, Stream::host);
  if (segment.waits_for != TemplateOp::none) {
    base.op = OpKind::sync;
    const TaskId sync = builder_.add_task(launch_seconds_, stream, base.packed());
    builder_.add_edge(scratch_[static_cast<size_t>(segment.waits_for)], sync);
  }
  base.op = OpKind::launch;
  return builder_.add_task(segment.host_seconds, stream, base.packed());
}

TaskId StepWriter::stamp(uint32_t device, const Template& t, Label base) {
  return stamp(device, t, base, base);
}

TaskId StepWriter::stamp(uint32_t device, const Template& t, Label base, Label other) {
  const TaskId previous = compute_tail(device);
  const std::vector<CollectiveClaims>& claims = claims_of(device, t);
  TaskId host = no_task;
  TaskId first = no_task;
  scratch_.resize(t.ops.size());
  auto segment = t.segments.begin();
  for (size_t i = 0; i < t.ops.size(); ++i) {
    const TemplateOp& op = t.ops[i];
    while (host_ && segment != t.segments.end() && segment->first_op <= static_cast<int32_t>(i))
      host = launch(device, *segment++, base);
    Label label = op.other ? other : base;
    label.op = op.op;
    label.pass = op.pass;
    label.part = op.part;
    const StreamId stream = stream_id(device, op.stream);
    Entered task;
    if (op.stream == Stream::compute) {
      task.moved = task.entry = builder_.add_task(op.duration_seconds, stream, label.packed());
      if (first == no_task) first = task.entry;
      if (!pending_[device].empty()) drain_pending(device, task.entry);
    } else {
      task = enter(device, meeting_of(op), stream, op.duration_seconds, label);
    }
    claim(task, op.latency_seconds, claims[i]);
    for (int32_t a : op.after) {
      if (a == TemplateOp::none) continue;
      const TaskId source = a == TemplateOp::previous ? previous : scratch_[static_cast<size_t>(a)];
      if (source != no_task) builder_.add_edge(source, task.entry);
    }
    if (op.launch_edge && host != no_task)
      builder_.add_start_edge(host, task.entry, op.launch_lag_seconds);
    if (!op.captured) issue(device, op.stream, task.entry);
    scratch_[i] = task.moved;
  }
  while (host_ && segment != t.segments.end()) launch(device, *segment++, base);
  return first;
}

TaskId StepWriter::kernel(uint32_t device, const Kernel& modelled, Label label) {
  const Kernel kernel =
      with_time(modelled, s_.kernel_times.of(label.op, label.pass), faults_[device].slowdown);
  TaskId host = no_task;
  if (host_) {
    Label launch = label;
    launch.op = OpKind::launch;
    host = builder_.add_task(launch_seconds_, stream_id(device, Stream::host), launch.packed());
  }
  const TaskId task =
      builder_.add_task(kernel.duration.value, stream_id(device, Stream::compute), label.packed());
  if (kernel.sms > 0 && kernel.duration > Seconds{}) {
    const double rate = (kernel.memory / kernel.duration).value;
    claim({task, task}, 0, {.transfer = resources_->kernel(device, rate, runner_of(kernel))});
  }
  drain_pending(device, task);
  if (host != no_task) builder_.add_start_edge(host, task, launch_seconds_);
  issue(device, Stream::compute, task);
  return task;
}

void StepWriter::delay(uint32_t device, Seconds duration, Label label) {
  if (duration <= Seconds{}) return;
  label.op = OpKind::delay;
  drain_pending(device, builder_.add_task(duration.value, stream_id(device, Stream::compute),
                                          label.packed()));
}

TaskId StepWriter::collective(uint32_t device, Meeting meeting, Stream stream,
                              const CollectiveCost& cost, Label label) {
  host_work(device, {launch_seconds_}, label);
  const TaskId host = host_ ? builder_.tail(stream_id(device, Stream::host)) : no_task;
  const TaskId after = compute_tail(device);
  const Entered entered =
      enter(device, meeting, stream_id(device, stream), cost.duration.value, label);
  claim(entered, cost.latency.value, claims_of(device, meeting, yielding(load_of(cost), false)));
  if (after != no_task) builder_.add_edge(after, entered.entry);
  for (TaskId p : pending_[device]) builder_.add_edge(p, entered.entry);
  if (host != no_task) builder_.add_start_edge(host, entered.entry, launch_seconds_);
  issue(device, stream, entered.entry);
  return entered.moved;
}

void StepWriter::copy(uint32_t device, Stream stream, const CollectiveCost& cost, Label label) {
  host_work(device, {launch_seconds_}, label);
  const TaskId host = host_ ? builder_.tail(stream_id(device, Stream::host)) : no_task;
  const TaskId after = compute_tail(device);
  const TaskId task =
      builder_.add_task(cost.duration.value, stream_id(device, stream), label.packed());
  claim({task, task}, cost.latency.value,
        {.transfer = resources_->transfer(device, device, load_of(cost), Held::while_running, {})});
  if (after != no_task) builder_.add_edge(after, task);
  if (host != no_task) builder_.add_start_edge(host, task, launch_seconds_);
  issue(device, stream, task);
}

void StepWriter::device_sync(uint32_t device, Label label) {
  if (!host_) return;
  label.op = OpKind::sync;
  const TaskId sync =
      builder_.add_task(launch_seconds_, stream_id(device, Stream::host), label.packed());
  for (uint32_t i = 0; i < stream_count; ++i) {
    const auto stream = static_cast<Stream>(i);
    const TaskId tail = builder_.tail(stream_id(device, stream));
    if (stream != Stream::host && tail != no_task) builder_.add_edge(tail, sync);
  }
}

void StepWriter::host_work(uint32_t device, Seconds duration, Label label) {
  if (!host_) return;
  if (label.op != OpKind::step_overhead) label.op = OpKind::launch;
  builder_.add_task(duration.value, stream_id(device, Stream::host), label.packed());
}

void StepWriter::host_block(uint32_t device, Seconds duration, Label label) {
  if (host_) return host_work(device, duration, label);
  label.op = OpKind::step_overhead;
  wait(device, builder_.add_task(duration.value, stream_id(device, Stream::host), label.packed()));
}

}  // namespace stepsim
