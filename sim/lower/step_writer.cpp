#include "sim/lower/step_writer.h"

#include <algorithm>
#include <cassert>
#include <set>

namespace stepsim {

namespace {

constexpr size_t at(Meeting m) { return static_cast<size_t>(m); }

Meeting meeting_of(CommClass c) { return c == CommClass::cp ? Meeting::cp : Meeting::tp; }

/// Links of one device, in the order add_links creates them.
enum Link : uint32_t { nvlink_out, nvlink_in, nic_out, nic_in, link_count };
ResourceId link(uint32_t device, Link l) { return ResourceId{device * link_count + l}; }

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
  for (auto& by_leader : meets_) by_leader.resize(folding.ranks.size());
  const size_t per_device = 2 * static_cast<size_t>(scenario.parallel.chunks()) *
                            static_cast<size_t>(scenario.batch.microbatches);
  if (scenario.parallel.pp > 1)
    for (auto& m : messages_) m.assign(per_device, no_task);
  place_groups(fabric);
  add_links();
}

void StepWriter::place_groups(const Fabric& fabric) {
  constexpr std::array<std::pair<Meeting, GroupKind>, 4> kinds{
      {{Meeting::tp, GroupKind::tp},
       {Meeting::cp, GroupKind::cp},
       {Meeting::dp, GroupKind::dp_cp},
       {Meeting::embedding, GroupKind::embedding}}};
  const auto devices = static_cast<uint32_t>(folding_.ranks.size());
  for (uint32_t d = 0; d < devices; ++d) {
    for (const auto& [meeting, kind] : kinds) {
      Peers& peers = peers_[d][at(meeting)];
      peers.leader = d;
      if (mesh_.group_size(kind) < 2) continue;
      const std::vector<int> ranks = mesh_.group(kind, folding_.ranks[d]);
      if (!s_.costs) placements_[d][at(meeting)] = place(ranks, fabric, s_.cluster);
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
      const std::array<int, 2> pair{folding_.ranks[d], [&] {
                                      Coordinates c = mesh_.coordinates(folding_.ranks[d]);
                                      c.pp = (c.pp + offset + s_.parallel.pp) % s_.parallel.pp;
                                      return mesh_.rank(c);
                                    }()};
      message_costs_.push_back(collective_cost(Collective::send_recv, message,
                                               place(pair, fabric, s_.cluster), s_.cluster));
    }
}

void StepWriter::add_links() {
  // A link that a single queue uses never contends: leave its claims out.
  int nvlink_users = 0, nic_users = 0;
  const auto count = [&](const GroupPlacement& g, int size, int queues) {
    if (size < 2) return;
    if (g.per_domain > 1) nvlink_users += queues;
    if (g.domains > 1) nic_users += queues;
  };
  count(placements_[0][at(Meeting::tp)], s_.parallel.tp, 1);
  count(placements_[0][at(Meeting::cp)], s_.parallel.cp, 1);
  count(placements_[0][at(Meeting::dp)], s_.parallel.dp * s_.parallel.cp, 1);
  for (const CollectiveCost& c : message_costs_) {
    if (c.nvlink_rate.value > 0) nvlink_users += 2;
    if (c.nic_rate.value > 0) nic_users += 2;
  }
  nvlink_shared_ = nvlink_users > 1;
  nic_shared_ = nic_users > 1;
  if (!nvlink_shared_ && !nic_shared_) return;
  const Cluster& c = s_.cluster;
  const double nvlink = c.device.nvlink_bandwidth.value * c.device.nvlink_efficiency;
  const double nic = c.nic_bandwidth.value * c.nic_efficiency * c.nics_per_node / c.gpus_per_node;
  for (uint32_t d = 0; d < device_count(); ++d) {
    for (Link l : {nvlink_out, nvlink_in, nic_out, nic_in}) {
      [[maybe_unused]] const ResourceId id =
          builder_.add_resource(l == nvlink_out || l == nvlink_in ? nvlink : nic);
      assert(id == link(d, l));
    }
  }
}

void StepWriter::claim(TaskId task, uint32_t out, uint32_t in, double latency, double nvlink,
                       double nic) {
  std::array<Claim, 4> claims;
  size_t n = 0;
  if (nvlink_shared_ && nvlink > 0) {
    claims[n++] = {link(out, nvlink_out), static_cast<float>(nvlink), 1};
    claims[n++] = {link(in, nvlink_in), static_cast<float>(nvlink), 1};
  }
  if (nic_shared_ && nic > 0) {
    claims[n++] = {link(out, nic_out), static_cast<float>(nic), 1};
    claims[n++] = {link(in, nic_in), static_cast<float>(nic), 1};
  }
  if (n > 0) builder_.set_claims(task, latency, std::span(claims.data(), n));
}

void StepWriter::drain_pending(uint32_t device, TaskId task) {
  for (TaskId p : pending_[device]) builder_.add_edge(p, task);
  pending_[device].clear();
}

TaskId StepWriter::enter(uint32_t device, Meeting meeting, StreamId stream, double duration,
                         Label label, TaskId& entry) {
  Peers& peers = peers_[device][at(meeting)];
  if (peers.count < 2) return entry = builder_.add_task(duration, stream, label.packed());
  Label mark = label;
  mark.op = OpKind::arrive;
  entry = builder_.add_task(0, stream, mark.packed());
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
  return moved;
}

void StepWriter::stamp(uint32_t device, const Template& t, Label base) {
  const TaskId previous = compute_tail(device);
  TaskId host = no_task;
  if (host_) {
    base.op = OpKind::launch;
    host = builder_.add_task(t.host_seconds, stream_id(device, Stream::host), base.packed());
  }
  scratch_.resize(t.ops.size());
  for (size_t i = 0; i < t.ops.size(); ++i) {
    const TemplateOp& op = t.ops[i];
    Label label = base;
    label.op = op.op;
    label.pass = op.pass;
    label.part = op.part;
    const StreamId stream = stream_id(device, op.stream);
    TaskId entry = no_task, task = no_task;
    if (op.stream == Stream::compute) {
      task = entry = builder_.add_task(op.duration_seconds, stream, label.packed());
      if (!pending_[device].empty()) drain_pending(device, task);
    } else {
      task = enter(device, meeting_of(row(op.op).comm), stream, op.duration_seconds, label, entry);
      claim(task, device, device, op.latency_seconds, op.nvlink_rate, op.nic_rate);
    }
    for (int32_t a : op.after) {
      if (a == TemplateOp::none) continue;
      const TaskId source = a == TemplateOp::previous ? previous : scratch_[static_cast<size_t>(a)];
      if (source != no_task) builder_.add_edge(source, entry);
    }
    if (op.launch_edge && host != no_task)
      builder_.add_start_edge(host, entry, op.launch_lag_seconds);
    scratch_[i] = task;
  }
}

TaskId StepWriter::kernel(uint32_t device, Seconds duration, Label label) {
  TaskId host = no_task;
  if (host_) {
    Label launch = label;
    launch.op = OpKind::launch;
    host = builder_.add_task(launch_seconds_, stream_id(device, Stream::host), launch.packed());
  }
  const TaskId task =
      builder_.add_task(duration.value, stream_id(device, Stream::compute), label.packed());
  drain_pending(device, task);
  if (host != no_task) builder_.add_start_edge(host, task, launch_seconds_);
  return task;
}

TaskId StepWriter::collective(uint32_t device, Meeting meeting, Stream stream,
                              const CollectiveCost& cost, Label label) {
  host_work(device, {launch_seconds_}, label);
  const TaskId host = host_ ? builder_.tail(stream_id(device, Stream::host)) : no_task;
  const TaskId after = compute_tail(device);
  TaskId entry = no_task;
  const TaskId task =
      enter(device, meeting, stream_id(device, stream), cost.duration.value, label, entry);
  claim(task, device, device, cost.latency.value, cost.nvlink_rate.value, cost.nic_rate.value);
  if (after != no_task) builder_.add_edge(after, entry);
  for (TaskId p : pending_[device]) builder_.add_edge(p, entry);
  if (host != no_task) builder_.add_start_edge(host, entry, launch_seconds_);
  return task;
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
  label.op = OpKind::launch;
  builder_.add_task(duration.value, stream_id(device, Stream::host), label.packed());
}

}  // namespace stepsim
