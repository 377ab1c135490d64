#include "sim/lower/step_writer.h"

#include <algorithm>
#include <cassert>
#include <set>

namespace stepsim {

namespace {

constexpr size_t at(Meeting m) { return static_cast<size_t>(m); }

constexpr std::array<std::pair<Meeting, GroupKind>, 4> group_meetings{
    {{Meeting::tp, GroupKind::tp},
     {Meeting::cp, GroupKind::cp},
     {Meeting::dp, GroupKind::dp_cp},
     {Meeting::embedding, GroupKind::embedding}}};

Meeting meeting_of(CommClass c) { return c == CommClass::cp ? Meeting::cp : Meeting::tp; }

}  // namespace

uint32_t neighbour(const Mesh& mesh, const Folding& folding, uint32_t device, int offset) {
  Coordinates c = mesh.coordinates(folding.ranks[device]);
  const int stages = mesh.group_size(GroupKind::pp);
  c.pp = (c.pp + offset + stages) % stages;
  return static_cast<uint32_t>(folding.device(mesh.rank(c)));
}

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
  // Streams take the launch queues in turn; with one each nothing waits for a queue.
  const auto queues = static_cast<size_t>(scenario.launch_env.max_connections);
  if (host_ && queues < stream_count)
    issued_.assign(device_count(), std::vector(queues, std::pair(no_task, Stream::compute)));
}

void StepWriter::place_groups(const Fabric& fabric) {
  const auto devices = static_cast<uint32_t>(folding_.ranks.size());
  for (uint32_t d = 0; d < devices; ++d) {
    for (const auto& [meeting, kind] : group_meetings) {
      Peers& peers = peers_[d][at(meeting)];
      peers.leader = d;
      if (mesh_.group_size(kind) < 2) continue;
      const std::vector<int> ranks = mesh_.group(kind, folding_.ranks[d]);
      if (!s_.costs) placements_[d][at(meeting)] = place_faulty(ranks, fabric);
      if (folding_.regular && kind != GroupKind::embedding) continue;
      std::set<uint32_t> members;
      for (int r : ranks) members.insert(static_cast<uint32_t>(folding_.device(r)));
      peers.leader = *members.begin();
      peers.count = static_cast<uint32_t>(members.size());
    }
    peers_[d][at(Meeting::world)] = {.leader = 0, .count = devices};
    GroupPlacement& world = placements_[d][at(Meeting::world)];
    world = placements_[d][at(Meeting::dp)];
    world.size = mesh_.world();
    world.per_domain = std::min(mesh_.world(), s_.cluster.nvlink_domain);
    world.domains = (mesh_.world() + world.per_domain - 1) / world.per_domain;
    if (world.domains > 1 && !s_.costs) {
      const Route far = fabric.route(0, mesh_.world() - 1);
      world.network_bandwidth = far.bandwidth;
      world.network_latency = far.latency;
    }
  }
  if (s_.costs || s_.parallel.pp < 2) return;
  const double tp = s_.parallel.sequence_parallel ? s_.parallel.tp : 1;
  const Bytes message{2.0 *
                      static_cast<double>(s_.batch.sequence * s_.batch.micro * s_.model.hidden) /
                      (s_.parallel.cp * tp)};
  for (uint32_t d = 0; d < devices; ++d)
    for (int offset : {1, -1}) {
      const std::array<int, 2> pair{folding_.ranks[d], stage_neighbour(folding_.ranks[d], offset)};
      message_costs_.push_back(
          collective_cost(Collective::send_recv, message, place_faulty(pair, fabric), s_.cluster));
    }
}

GroupPlacement StepWriter::place_faulty(std::span<const int> ranks, const Fabric& fabric) const {
  return slowest_member(place(ranks, fabric), ranks, s_.faults, s_.cluster);
}

SharedKinds StepWriter::shared_kinds() const {
  // Any two queues of any device may meet on a link. What a free-form graph shares is only known by
  // its routes.
  if (s_.costs) return {};
  SharedKinds shared{.nvlink = false,
                     .network = !s_.cluster.links.empty(),
                     .device = mesh_.world() > 1 && s_.cluster.device.sms > 0};
  for (uint32_t d = 0; d < device_count(); ++d) {
    int nvlink_users = 0, nic_users = 0;
    const auto count = [&](Meeting meeting, int size) {
      const GroupPlacement& g = placement(d, meeting);
      if (size < 2) return;
      if (g.per_domain > 1) ++nvlink_users;
      if (g.domains > 1) ++nic_users;
    };
    count(Meeting::tp, s_.parallel.tp);
    count(Meeting::cp, s_.parallel.cp);
    count(Meeting::dp, s_.parallel.dp * s_.parallel.cp);
    for (size_t way = 0; way < 2 && !message_costs_.empty(); ++way) {
      // A send, and the receive from that side.
      const CollectiveCost& c = message_costs_[2 * d + way];
      if (c.nvlink_rate.value > 0) nvlink_users += 2;
      if (c.nic_rate.value > 0) nic_users += 2;
    }
    shared.nvlink |= nvlink_users > 1;
    shared.network |= nic_users > 1;
  }
  return shared;
}

void StepWriter::find_routes(const Fabric& fabric) {
  routes_.resize(device_count());
  message_routes_.resize(2 * device_count());
  if (s_.cluster.links.empty() || s_.costs) return;
  for (uint32_t d = 0; d < device_count(); ++d) {
    const int rank = folding_.ranks[d];
    for (const auto& [meeting, kind] : group_meetings) {
      if (mesh_.group_size(kind) < 2) continue;
      const int next = next_over_network(mesh_.group(kind, rank), rank, fabric);
      if (next >= 0) routes_[d][at(meeting)] = resources_->route(fabric, rank, next);
    }
    if (s_.parallel.pp < 2) continue;
    for (int way = 0; way < 2; ++way)
      message_routes_[2 * d + static_cast<uint32_t>(way)] =
          resources_->route(fabric, rank, stage_neighbour(rank, way == 0 ? 1 : -1));
  }
}

int StepWriter::stage_neighbour(int rank, int offset) const {
  Coordinates c = mesh_.coordinates(rank);
  c.pp = (c.pp + offset + s_.parallel.pp) % s_.parallel.pp;
  return mesh_.rank(c);
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
    found->second.push_back(
        claims_of(device, meeting_of(row(op.op).comm), yielding(load, op.userbuffers)));
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
  auto& [last, last_stream] = queues[static_cast<size_t>(stream) % queues.size()];
  // Within a stream the order is there already.
  if (last != no_task && last_stream != stream) builder_.add_start_edge(last, task, 0);
  last = task;
  last_stream = stream;
}

TaskId StepWriter::stamp(uint32_t device, const Template& t, Label base) {
  const TaskId previous = compute_tail(device);
  const std::vector<CollectiveClaims>& claims = claims_of(device, t);
  TaskId host = no_task;
  if (host_) {
    base.op = OpKind::launch;
    host = builder_.add_task(t.host_seconds, stream_id(device, Stream::host), base.packed());
  }
  TaskId first = no_task;
  scratch_.resize(t.ops.size());
  for (size_t i = 0; i < t.ops.size(); ++i) {
    const TemplateOp& op = t.ops[i];
    Label label = base;
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
      task = enter(device, meeting_of(row(op.op).comm), stream, op.duration_seconds, label);
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
  return first;
}

TaskId StepWriter::kernel(uint32_t device, const Kernel& kernel, Label label) {
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
