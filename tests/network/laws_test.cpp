// Laws of every row of the algorithm table over a grid of group shapes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "sim/network/algorithm.h"
#include "tests/network/clusters.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

constexpr Collective operations[] = {Collective::all_reduce,     Collective::all_gather,
                                     Collective::reduce_scatter, Collective::broadcast,
                                     Collective::all_to_all,     Collective::send_recv,
                                     Collective::peer_copy};
constexpr double sizes[] = {1, 4096, 1e6, 67.1e6, 1e9, 34e9};

/// A regular group on a cluster with 40 GB/s a member.
GroupPlacement shape(int per_domain, int domains) {
  return {.size = per_domain * domains,
          .per_domain = per_domain,
          .domains = domains,
          .network_bandwidth = 40.0_GBps,
          .network_latency = 6.5_us};
}

/// Where every row serves: switches add up, copy engines are asked for, NVLS may gather.
Cluster everything() {
  Cluster cluster = with_switches(1);
  cluster.nccl.zero_ctas = true;
  cluster.nccl.algorithms.fill((1U << nccl_algorithms.size()) - 1);
  return cluster;
}

/// Calls `check` for every algorithm, collective and group that go together.
void for_all(
    const std::function<void(const Algorithm&, Collective, const GroupPlacement&)>& check) {
  const Cluster cluster = everything();
  for (const Algorithm& algorithm : algorithms())
    for (const Collective op : operations)
      for (const int per_domain : {1, 2, 3, 4, 8})
        for (const int domains : {1, 2, 3, 4, 5, 8, 13}) {
          const GroupPlacement group = shape(per_domain, domains);
          if (group.size < 2 || !algorithm.serves(op, group, cluster)) continue;
          CAPTURE(algorithm.name);
          CAPTURE(static_cast<int>(op));
          CAPTURE(per_domain);
          CAPTURE(domains);
          check(algorithm, op, group);
        }
}

/// Calls `check` for each protocol that the algorithm knows.
void for_protocols(const Algorithm& algorithm, const std::function<void(Protocol)>& check) {
  for (const Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple})
    if (algorithm.protocols || protocol == Protocol::simple) check(protocol);
}

bool is_pair(Collective op) { return op == Collective::send_recv || op == Collective::peer_copy; }

/// Replays a plan. Each piece of the buffer is the list of members whose contributions a member
/// holds of it.
class Replay {
 public:
  using Held = std::vector<int>;  ///< how often each member's contribution is in the sum

  Replay(Collective op, const GroupPlacement& group, const Plan& plan)
      : n_(group.size), plan_(plan) {
    const size_t pieces = static_cast<size_t>(plan.channels * plan.chunks);
    const int nvswitches = plan.nvswitches ? group.domains : 0;
    const int vertices = n_ + nvswitches + (plan.network_switch ? 1 : 0);
    // Members lie domain after domain, then an NVSwitch a domain, then the network's switch.
    const auto domain = [&](int vertex) {
      if (vertex < n_) return vertex / group.per_domain;
      return vertex < n_ + nvswitches ? vertex - n_ : -1;
    };
    held_.assign(static_cast<size_t>(vertices),
                 std::vector<Held>(pieces, Held(static_cast<size_t>(n_))));
    for (int m = 0; m < n_; ++m)
      for (int c = 0; c < plan.channels; ++c)
        for (int k = 0; k < plan.chunks; ++k) {
          const bool starts_here = op == Collective::all_gather                 ? owner(c, k) == m
                                   : is_pair(op) || op == Collective::broadcast ? m == 0
                                                                                : true;
          if (starts_here) at(m, c, k)[static_cast<size_t>(m)] = 1;
        }
    sent_nvlink_.assign(static_cast<size_t>(vertices), 0);
    sent_network_ = received_ = sent_nvlink_;
    for (size_t i = 0; i < plan.moves.size();) {
      // A step's moves all read what was there before it.
      std::vector<std::pair<const Move*, Held>> landing;
      const int step = plan.moves[i].step;
      for (; i < plan.moves.size() && plan.moves[i].step == step; ++i)
        landing.emplace_back(&plan.moves[i],
                             at(plan.moves[i].from, plan.moves[i].channel, plan.moves[i].chunk));
      CHECK((i == plan.moves.size() || plan.moves[i].step > step));
      for (const auto& [move, sent] : landing) {
        Held& target = at(move->to, move->channel, move->chunk);
        for (size_t m = 0; m < sent.size(); ++m)
          target[m] = move->reduce ? target[m] + sent[m] : sent[m];
        const double part = 1.0 / plan.channels / plan.chunks;
        const bool inside = domain(move->from) == domain(move->to);
        (inside ? sent_nvlink_ : sent_network_)[static_cast<size_t>(move->from)] += part;
        received_[static_cast<size_t>(move->to)] += part;
      }
    }
  }

  int owner(int channel, int chunk) const {
    return plan_.owner[static_cast<size_t>(channel)][static_cast<size_t>(chunk)];
  }
  const Held& at(int member, int channel, int chunk) const {
    return held_[static_cast<size_t>(member)][static_cast<size_t>(channel * plan_.chunks + chunk)];
  }
  /// Fractions of the buffer sent by the busiest member.
  double nvlink() const {
    return *std::max_element(sent_nvlink_.begin(), members_of(sent_nvlink_));
  }
  double network() const {
    return *std::max_element(sent_network_.begin(), members_of(sent_network_));
  }
  double received() const { return *std::min_element(received_.begin(), members_of(received_)); }

 private:
  std::vector<double>::const_iterator members_of(const std::vector<double>& v) const {
    return v.begin() + n_;
  }
  Held& at(int member, int channel, int chunk) {
    return held_[static_cast<size_t>(member)][static_cast<size_t>(channel * plan_.chunks + chunk)];
  }
  int n_;
  const Plan& plan_;
  std::vector<std::vector<Held>> held_;
  std::vector<double> sent_nvlink_, sent_network_, received_;
};

}  // namespace

// Law: every collective delivers every byte, each contribution exactly once.
TEST_CASE("byte ledger: every algorithm delivers every byte once") {
  int plans = 0;
  for_all([&](const Algorithm& algorithm, Collective op, const GroupPlacement& group) {
    const Plan plan = algorithm.plan(op, group);
    const Replay replay(op, group, plan);
    ++plans;
    bool delivered = true;
    for (int member = 0; member < group.size; ++member)
      for (int channel = 0; channel < plan.channels; ++channel)
        for (int chunk = 0; chunk < plan.chunks; ++chunk) {
          const bool wanted = op == Collective::all_reduce || op == Collective::all_gather ||
                              op == Collective::broadcast ||
                              ((op == Collective::reduce_scatter || op == Collective::all_to_all) &&
                               replay.owner(channel, chunk) == member) ||
                              (is_pair(op) && member == 1);
          if (!wanted) continue;
          for (int source = 0; source < group.size; ++source) {
            const int expected = op == Collective::all_gather
                                     ? replay.owner(channel, chunk) == source
                                 : is_pair(op) || op == Collective::broadcast ? source == 0
                                                                              : 1;
            delivered &= replay.at(member, channel, chunk)[static_cast<size_t>(source)] == expected;
          }
        }
    CHECK(delivered);
  });
  CHECK(plans > 300);
}

// Law: what is priced is what the busiest member sends, on its NVLink port and on its NIC.
TEST_CASE("byte ledger: the priced load is the load of the moves") {
  const Cluster cluster = everything();
  for_all([&](const Algorithm& algorithm, Collective op, const GroupPlacement& group) {
    if (is_pair(op)) return;  // their two members are wherever the caller says
    const Replay replay(op, group, algorithm.plan(op, group));
    for_protocols(algorithm, [&](Protocol protocol) {
      const double bytes = 1e9;
      const CollectiveCost cost = algorithm.cost(op, {bytes}, group, cluster, protocol);
      const double seconds = (cost.duration - cost.latency).value;
      const double nvlink = cost.nvlink_rate.value * seconds / bytes;
      const double network = cost.nic_rate.value * seconds / bytes;
      CHECK(replay.nvlink() <= nvlink * (1 + 1e-9));
      CHECK(replay.network() <= network * (1 + 1e-9));
      CHECK(replay.nvlink() + replay.network() <= cost.wire_bytes.value / bytes * (1 + 1e-9));
      // Tightness: these have no slack at all. An all-gather by NVLS receives more than it sends.
      const bool exact = algorithm.name == "ring" || algorithm.name == "direct" ||
                         (op == Collective::all_reduce &&
                          (algorithm.name == "nvls" || algorithm.name == "collnet"));
      if (!exact) return;
      CHECK(replay.nvlink() == doctest::Approx(nvlink));
      CHECK(replay.network() == doctest::Approx(network));
    });
    // Tightness: nobody can have the whole buffer without receiving all but its own part.
    const double least = (op == Collective::all_reduce ? 2.0 : 1.0) * (group.size - 1) / group.size;
    if (algorithm.name == "ring" && op != Collective::broadcast)
      CHECK(replay.received() == doctest::Approx(least));
  });
}

// Law: a ring leaves and enters domains on one rail; only the boundary that closes it may change
// rails.
TEST_CASE("rings stay on their rails") {
  for (const int per_domain : {2, 4, 8})
    for (const int domains : {2, 4, 5, 13}) {
      const Plan plan = ring_plan(Collective::all_gather, shape(per_domain, domains));
      for (const Move& move : plan.moves) {
        const int from = move.from / per_domain, to = move.to / per_domain;
        if (from == to || from == domains - 1) continue;
        CHECK(to == from + 1);
        CHECK(move.from % per_domain == move.to % per_domain);
      }
    }
}

// Law: no algorithm beats its lower bound, at the ports or at the edge of a domain, and no load
// exceeds its link. Switches that add up save a pass of an all-reduce.
TEST_CASE("lower bounds") {
  const Cluster cluster = everything();
  const double port = 400e9, nic = 40e9;
  for_all([&](const Algorithm& algorithm, Collective op, const GroupPlacement& group) {
    for (const double bytes : sizes)
      for_protocols(algorithm, [&](Protocol protocol) {
        const CollectiveCost cost = algorithm.cost(op, {bytes}, group, cluster, protocol);
        constexpr double rounding = 1e-18;  // of the difference
        const double seconds = (cost.duration - cost.latency).value + rounding;
        const double n = group.size, k = group.per_domain, domains = group.domains;
        const double passes = op == Collective::all_reduce && !algorithm.adds_in_network ? 2 : 1;
        const double links = (domains > 1 ? nic : 0) + (k > 1 ? port : 0);
        CHECK(cost.latency > Seconds{});
        CHECK(cost.nvlink_rate.value <= port * (1 + 1e-9));
        CHECK(cost.nic_rate.value <= nic * (1 + 1e-9));
        CHECK(cost.hbm_rate >= 2 * (cost.nvlink_rate + cost.nic_rate) * (1 - 1e-9));
        if (is_pair(op)) {
          CHECK(seconds >= bytes / (domains > 1 ? nic : port) * (1 - 1e-9));
          return;
        }
        CHECK(seconds >= passes * (n - 1) / n * bytes / links * (1 - 1e-9));
        // What enters and leaves a domain; an all-reduce needs only one pass of it when the network
        // itself could add up.
        if (domains > 1) CHECK(seconds >= (domains - 1) / domains * bytes / (k * nic) * (1 - 1e-9));
      });
  });
}

// DGX H100: 480 GB/s of bus bandwidth are 274 of algorithm bandwidth, and the port carries 9/8 of
// that, 309 of 450 GB/s: the switch adds up, so the bus figure may exceed the wire.
TEST_CASE("NVLS: bus bandwidth above the wire, wire below the port") {
  Cluster cluster = with_switches(1);
  cluster.device.nvlink_bandwidth = 450.0_GBps;
  cluster.device.nvls_efficiency = 309.0 / 450;
  const double bytes = 64e9;
  const CollectiveCost cost =
      collective_cost(Collective::all_reduce, {bytes}, shape(8, 1), cluster);
  CHECK(cost.algorithm == "nvls");
  CHECK(bytes / cost.duration.value * 1e-9 * 1.75 == doctest::Approx(480).epsilon(0.01));
  CHECK(cost.wire_bytes.value == doctest::Approx(bytes * 9 / 8));
  CHECK(gbps(cost.nvlink_rate) == doctest::Approx(309));
  CHECK(bytes / cost.duration.value * 1.75 > 450e9);
}

// Eight GPUs on one switch, 50 GB/s each way, 10 ns: an all-reduce moves 7/8 of the buffer twice.
TEST_CASE("ring and direct all-reduce agree on equal ports") {
  Cluster cluster = dgx_h100(8);
  cluster.gpus_per_node = cluster.nvlink_domain = cluster.nics_per_node = 1;
  cluster.nic_efficiency = 1;
  cluster.nic_latency = 0.01_us;
  cluster.tiers.clear();
  const GroupPlacement group = place(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}, Fabric(cluster));
  const auto duration = [&](std::string_view algorithm, double bytes) {
    cluster.nccl.algorithms.fill(name_bit(nccl_algorithms, algorithm));
    const CollectiveCost cost = collective_cost(Collective::all_reduce, {bytes}, group, cluster);
    CHECK(cost.algorithm == algorithm);
    return cost.duration.value;
  };
  for (const double bytes : {100e6, 1073741824.0}) {
    const double ring = duration("ring", bytes), direct = duration("direct", bytes);
    CHECK(ring >= 1.75 * bytes / 50e9);
    CHECK(direct >= 1.75 * bytes / 50e9);
    CHECK(std::abs(ring / direct - 1) < 0.05);
  }
}

// Law: a faster link, a shorter hop, fewer bytes never slow a collective.
TEST_CASE("monotone") {
  const Cluster cluster = with_switches(1);
  Cluster faster_nvlink = cluster;
  faster_nvlink.device.nvlink_bandwidth *= 2;
  Cluster nearer = cluster;
  nearer.device.nvlink_latency *= 0.5;
  for (const Collective op : operations)
    for (const int per_domain : {1, 2, 8, 72})
      for (const int domains : {1, 2, 7, 64})
        for (const double bytes : sizes) {
          const GroupPlacement group = shape(per_domain, domains);
          GroupPlacement faster_nic = group, nearer_switch = group;
          faster_nic.network_bandwidth *= 2;
          nearer_switch.network_latency *= 0.5;
          const auto duration = [&](const GroupPlacement& g, const Cluster& c, double b) {
            return collective_cost(op, {b}, g, c).duration.value;
          };
          const double base = duration(group, cluster, bytes);
          CHECK(duration(group, faster_nvlink, bytes) <= base);
          CHECK(duration(group, nearer, bytes) <= base);
          CHECK(duration(faster_nic, cluster, bytes) <= base);
          CHECK(duration(nearer_switch, cluster, bytes) <= base);
          CHECK(duration(group, cluster, bytes * 0.7) <= base);
        }
}

// Law: fewer channels slow a collective, and they never make a group over more nodes faster than
// that of one. (A chain's fill is spread thinner by more members, and an all-to-all leaves less to
// NVLink: those two are compared with themselves only.)
TEST_CASE("limited channels") {
  for (const char* architecture : {"ampere", "hopper", "blackwell"})
    for (const Collective op :
         {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
          Collective::broadcast, Collective::all_to_all, Collective::send_recv})
      for (const double bytes : sizes) {
        CAPTURE(architecture);
        CAPTURE(static_cast<int>(op));
        CAPTURE(bytes);
        Cluster cluster = with_switches(1);
        cluster.device.architecture = architecture;
        cluster.nccl.collnet = false;
        const auto duration = [&](int most, int nodes) {
          cluster.nccl.max_ctas = most;
          return collective_cost(op, {bytes}, shape(8, nodes), cluster).duration.value;
        };
        const bool compared = op == Collective::all_reduce || op == Collective::all_gather ||
                              op == Collective::reduce_scatter;
        for (const int most : {1, 2, 4, 8, 12, 16, 20, 24, 32, 64})
          for (const int nodes : {1, 2, 4, 16}) {
            CAPTURE(most);
            CAPTURE(nodes);
            CHECK(duration(most, nodes) >= duration(0, nodes));
            CHECK(duration(most, nodes) >= duration(std::min(64, 2 * most), nodes));
            if (compared) CHECK(duration(most, nodes) >= duration(most, 1));
          }
      }
  // Two channels are a twelfth of 24 on NVLink, wherever: 15.5 / 16 of the bytes against 7.5 / 8.
  Cluster cluster = dgx_h100(1);
  cluster.nccl.max_ctas = 2;
  const auto transfer = [&](int nodes) {
    const CollectiveCost cost =
        collective_cost(Collective::all_gather, {8e9}, shape(8, nodes), cluster);
    return us(cost.duration - cost.latency);
  };
  CHECK(transfer(1) == doctest::Approx(7.5e9 / (400e3 / 12)));
  CHECK(transfer(2) == doctest::Approx(15.5 / 16 * 8e9 / (400e3 / 12)));
}

TEST_CASE("doubling the NIC doubles what a network-bound collective moves") {
  Cluster cluster = dgx_h100(4);
  const std::vector<int> gpus = {0, 8, 16, 24};
  const auto transfer = [&] {
    const GroupPlacement group = place(gpus, Fabric(cluster));
    const CollectiveCost cost = collective_cost(Collective::all_gather, {1e9}, group, cluster);
    return (cost.duration - cost.latency).value;
  };
  const double before = transfer();
  cluster.nic_bandwidth *= 2;
  CHECK(transfer() == doctest::Approx(before / 2));
}

// Law: a group inside one domain costs the same whatever the fabric.
TEST_CASE("inside a domain the fabric does not matter") {
  const std::vector<int> gpus = {0, 1, 2, 3, 4, 5, 6, 7};
  Cluster graph = dgx_h100(2);
  graph.links = {{"gpu0", "gpu8", 1.0_GBps, 1.0_us}};
  for (const Collective op : operations) {
    const Cluster reference = dgx_h100(4);
    const Seconds expected =
        collective_cost(op, {1e8}, place(gpus, Fabric(reference)), reference).duration;
    for (const Cluster& cluster : {ethernet(16), graph})
      CHECK(collective_cost(op, {1e8}, place(gpus, Fabric(cluster)), cluster).duration == expected);
  }
}

TEST_CASE("the table names every row once and says what it does") {
  std::map<std::string_view, int> names;
  for (const Algorithm& algorithm : algorithms()) {
    CHECK(++names[algorithm.name] == 1);
    CHECK(algorithm.description.size() > 20);
  }
  const Cluster cluster = dgx_h100(1);
  for (const Collective op : operations)
    for (const int domains : {1, 4})
      CHECK(std::any_of(algorithms().begin(), algorithms().end(), [&](const Algorithm& a) {
        return a.serves(op, shape(2, domains), cluster);
      }));
}
