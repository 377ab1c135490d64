// Where the groups of the simulated devices sit, which of them meet, and what they share.
#include <algorithm>
#include <set>

#include "sim/lower/step_writer.h"

namespace stepsim {

namespace {

constexpr size_t place_of(Meeting m) { return static_cast<size_t>(m); }

struct GroupMeeting {
  Meeting meeting;
  GroupKind kind;
  bool experts;  ///< only where there are experts
};
constexpr std::array<GroupMeeting, 14> group_meetings{{
    {Meeting::tp, GroupKind::tp, false},
    {Meeting::cp, GroupKind::cp, false},
    {Meeting::cp_inner, GroupKind::cp_inner, false},
    {Meeting::cp_outer, GroupKind::cp_outer, false},
    {Meeting::dp, GroupKind::dp_cp, false},
    {Meeting::embedding, GroupKind::embedding, false},
    {Meeting::ep, GroupKind::ep, true},
    {Meeting::etp, GroupKind::etp, true},
    {Meeting::etp_ep, GroupKind::etp_ep, true},
    {Meeting::edp, GroupKind::edp, true},
    {Meeting::dp_inner, GroupKind::dp_inner, false},
    {Meeting::dp_outer, GroupKind::dp_outer, false},
    {Meeting::edp_inner, GroupKind::edp_inner, true},
    {Meeting::edp_outer, GroupKind::edp_outer, true},
}};

/// A message whose shares the receivers gather (Narayanan et al. 2021, section 4.1): one after the
/// other, at the mean load of both.
void gather_after(CollectiveCost& message, const CollectiveCost& gather) {
  const double before = (message.duration - message.latency).value;
  const double after = (gather.duration - gather.latency).value;
  const auto mean = [&](BytesPerSecond of_message, BytesPerSecond of_gather) {
    if (before + after <= 0) return BytesPerSecond{};
    return (of_message * before + of_gather * after) / (before + after);
  };
  message.nvlink_rate = mean(message.nvlink_rate, gather.nvlink_rate);
  message.nic_rate = mean(message.nic_rate, gather.nic_rate);
  message.hbm_rate = mean(message.hbm_rate, gather.hbm_rate);
  message.sms = std::max(message.sms, gather.sms);
  message.latency += gather.latency;
  message.duration += gather.duration;
}

}  // namespace

uint32_t neighbour(const Mesh& mesh, const Folding& folding, uint32_t device, int offset) {
  Coordinates c = mesh.coordinates(folding.ranks[device]);
  const int stages = mesh.group_size(GroupKind::pp);
  c.pp = (c.pp + offset + stages) % stages;
  return static_cast<uint32_t>(folding.device(mesh.rank(c)));
}

void StepWriter::place_groups(const Fabric& fabric) {
  const auto devices = static_cast<uint32_t>(folding_.ranks.size());
  for (uint32_t d = 0; d < devices; ++d) {
    for (const auto& [meeting, kind, experts] : group_meetings) {
      Peers& peers = peers_[d][place_of(meeting)];
      peers.leader = d;
      if (mesh_.group_size(kind) < 2 || (experts && !s_.parallel.experts)) continue;
      const std::vector<int> ranks = mesh_.group(kind, folding_.ranks[d]);
      if (!s_.costs) placements_[d][place_of(meeting)] = place_faulty(ranks, fabric);
      if (folding_.regular && kind != GroupKind::embedding) continue;
      std::set<uint32_t> members;
      for (int r : ranks) members.insert(static_cast<uint32_t>(folding_.device(r)));
      peers.leader = *members.begin();
      peers.count = static_cast<uint32_t>(members.size());
    }
    peers_[d][place_of(Meeting::world)] = {.leader = 0, .count = devices};
    GroupPlacement& world = placements_[d][place_of(Meeting::world)];
    world = placements_[d][place_of(Meeting::dp)];
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
  const bool shares = s_.parallel.sequence_parallel || s_.cluster.stack.scattered_messages;
  const double tp = shares ? s_.parallel.tp : 1;
  const Bytes message{2.0 *
                      static_cast<double>(s_.batch.sequence * s_.batch.micro * s_.model.hidden) /
                      (s_.parallel.cp * tp)};
  for (uint32_t d = 0; d < devices; ++d)
    for (int offset : {1, -1}) {
      const std::array<int, 2> pair{folding_.ranks[d], stage_neighbour(folding_.ranks[d], offset)};
      message_costs_.push_back(
          collective_cost(Collective::send_recv, message, place_faulty(pair, fabric), s_.cluster));
      if (!shares || s_.parallel.sequence_parallel || s_.parallel.tp < 2) continue;
      gather_after(message_costs_.back(), collective_cost(Collective::all_gather, message * tp,
                                                          placement(d, Meeting::tp), s_.cluster));
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
    if (s_.parallel.experts) {
      count(Meeting::etp_ep, s_.parallel.ep * s_.parallel.etp);
      count(Meeting::edp, s_.parallel.edp());
    }
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
    for (const auto& [meeting, kind, experts] : group_meetings) {
      if (mesh_.group_size(kind) < 2 || (experts && !s_.parallel.experts)) continue;
      const int next = next_over_network(mesh_.group(kind, rank), rank, fabric);
      if (next >= 0) routes_[d][place_of(meeting)] = resources_->route(fabric, rank, next);
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

}  // namespace stepsim
