// Bytes and time of moving tokens to experts.
#include "sim/network/dispatch.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/network/clusters.h"

using namespace stepsim;
using namespace stepsim::test;

namespace {

constexpr DispatchPass passes[] = {DispatchPass::dispatch, DispatchPass::combine,
                                   DispatchPass::dispatch_backward, DispatchPass::combine_backward};

/// EP x ETP ranks, `per_domain` of them in an NVLink domain; 40 GB/s a member between domains.
GroupPlacement group_of(int size, int per_domain) {
  const int near = std::min(size, per_domain);
  return {.size = size,
          .per_domain = near,
          .domains = size / near,
          .network_bandwidth = 40.0_GBps,
          .network_latency = 6.5_us};
}

/// DeepSeek-V3: 256 experts, 8 of them a token, 7168 wide; 4 of 8 groups if `limited`.
DispatchShape deepseek(int ep, bool limited) {
  return {.tokens = 4096,
          .width = 7168,
          .element_bytes = 2,
          .experts = 256,
          .top_k = 8,
          .groups = limited ? 8 : 0,
          .groups_top_k = limited ? 4 : 0,
          .ep = ep};
}

/// C(n, k) as a product, for sizes that a double holds exactly enough.
double binomial(int n, int k) {
  if (k < 0 || k > n) return 0;
  double c = 1;
  for (int i = 1; i <= k; ++i) c = c * (n - k + i) / i;
  return c;
}

/// Calls `found` with every choice of `k` numbers from `from`.
void choices(const std::vector<int>& from, int k,
             const std::function<void(const std::vector<int>&)>& found,
             std::vector<int> chosen = {}, size_t next = 0) {
  if (static_cast<int>(chosen.size()) == k) return found(chosen);
  for (size_t i = next; i < from.size(); ++i) {
    chosen.push_back(from[i]);
    choices(from, k, found, chosen, i + 1);
    chosen.pop_back();
  }
}

std::vector<int> numbers(int first, int count) {
  std::vector<int> list(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) list[static_cast<size_t>(i)] = first + i;
  return list;
}

/// Mean of the distinct blocks over every way to choose groups, then experts.
double enumerated_blocks(int experts, int k, int blocks, int groups, int groups_top_k) {
  double sum = 0, count = 0;
  choices(numbers(0, groups), groups_top_k, [&](const std::vector<int>& taken) {
    std::vector<int> pool;
    for (const int g : taken)
      for (const int e : numbers(g * experts / groups, experts / groups)) pool.push_back(e);
    choices(pool, k, [&](const std::vector<int>& chosen) {
      std::set<int> visited;
      for (const int e : chosen) visited.insert(e * blocks / experts);
      sum += static_cast<double>(visited.size());
      ++count;
    });
  });
  return sum / count;
}

}  // namespace

TEST_CASE("distinct ranks: 2 of 4 experts on 2 ranks are on one rank in 2 of 6 choices") {
  DispatchShape shape{.experts = 4, .top_k = 2};
  CHECK(distinct_blocks(shape, 2) == doctest::Approx(5.0 / 3));
}

TEST_CASE("distinct ranks agree with every choice written out, groups too") {
  int cells = 0;
  for (const int experts : {1, 2, 3, 4, 6, 8, 12})
    for (const int blocks : {1, 2, 3, 4, 6, 12})
      for (const int groups : {1, 2, 3, 4, 6})
        for (const int taken : {1, 2, 3})
          for (const int k : {1, 2, 3, 4}) {
            if (experts % blocks != 0 || experts % groups != 0 || taken > groups ||
                k > taken * experts / groups)
              continue;
            CAPTURE(experts);
            CAPTURE(blocks);
            CAPTURE(groups);
            CAPTURE(taken);
            CAPTURE(k);
            const DispatchShape shape{
                .experts = experts, .top_k = k, .groups = groups, .groups_top_k = taken};
            CHECK(distinct_blocks(shape, blocks) ==
                  doctest::Approx(enumerated_blocks(experts, k, blocks, groups, taken))
                      .epsilon(1e-12));
            ++cells;
          }
  CHECK(cells > 300);
}

TEST_CASE("distinct nodes of DeepSeek-V3 are at most the 4 groups of a token") {
  // A node of 8 holds one group of 32: it is visited if its group is among 4 of 8 and not all 8
  // experts lie in the other three.
  const double nodes = distinct_blocks(deepseek(64, true), 8);
  CHECK(nodes == doctest::Approx(4 * (1 - binomial(96, 8) / binomial(128, 8))));
  CHECK(nodes < 4);
  CHECK(distinct_blocks(deepseek(64, false), 8) > 5);
}

TEST_CASE("byte ledger: all-to-all sends k copies, all but its own share") {
  for (const int ep : {1, 2, 8, 64})
    for (const bool limited : {false, true}) {
      CAPTURE(ep);
      const DispatchShape shape = deepseek(ep, limited);
      const double copies = 4096.0 * 8;
      const GroupPlacement one = group_of(ep, 72), nodes = group_of(ep, 8);
      const auto out = dispatch_bytes(Dispatcher::alltoall, DispatchPass::dispatch, shape, one);
      CHECK(out.wire().value == doctest::Approx(copies * (7168 * 2 + 4) * (ep - 1) / ep));
      CHECK(out.network.value == 0);
      if (ep > 1) CHECK(out.local.value == doctest::Approx(copies * (7168 * 2 + 4) / ep));
      const auto back = dispatch_bytes(Dispatcher::alltoall, DispatchPass::combine, shape, nodes);
      const double near = std::min(ep, 8);
      CHECK(back.nvlink.value == doctest::Approx(copies * 7168 * 2 * (near - 1) / ep));
      CHECK(back.network.value == doctest::Approx(copies * 7168 * 2 * (ep - near) / ep));
    }
}

TEST_CASE("byte ledger: all-gather sends everything to everybody, whatever k") {
  for (const int ep : {1, 2, 8, 64})
    for (const int per_domain : {8, 72}) {
      DispatchShape shape = deepseek(ep, false);
      shape.reduce_bytes = 4;
      const GroupPlacement group = group_of(ep, per_domain);
      // Hidden in 2 bytes; a probability and a byte of the routing map for each of 256 experts.
      CHECK(dispatch_bytes(Dispatcher::allgather, DispatchPass::dispatch, shape, group)
                .wire()
                .value == doctest::Approx(4096.0 * (ep - 1) * (7168 * 2 + 256 * 5)));
      CHECK(
          dispatch_bytes(Dispatcher::allgather, DispatchPass::combine, shape, group).wire().value ==
          doctest::Approx(4096.0 * (ep - 1) * 7168 * 4));
      CHECK(dispatch_bytes(Dispatcher::allgather, DispatchPass::dispatch_backward, shape, group)
                .wire()
                .value == doctest::Approx(4096.0 * (ep - 1) * (7168 * 2 + 256 * 4)));
    }
}

TEST_CASE("byte ledger: DeepEP and Hybrid-EP send a copy a distinct rank, one a distinct domain") {
  for (const int ep : {1, 2, 8, 64})
    for (const int per_domain : {8, 72})
      for (const bool limited : {false, true}) {
        CAPTURE(ep);
        CAPTURE(per_domain);
        CAPTURE(limited);
        const DispatchShape shape = deepseek(ep, limited);
        const GroupPlacement group = group_of(ep, per_domain);
        const double in_rank = 256.0 / ep, near = group.per_domain, far = group.domains;
        // Without limits 8 of 256; with them 4 of 8 groups first: ranks smaller than a group of 32
        // are visited if their group is chosen, and missed by 8 of 128 experts; larger ones hold
        // whole groups.
        const auto distinct = [&](int blocks) {
          const int experts = 256 / blocks;
          if (!limited) return blocks * (1 - binomial(256 - experts, 8) / binomial(256, 8));
          if (experts <= 32)
            return blocks * 0.5 * (1 - binomial(128 - experts, 8) / binomial(128, 8));
          double missed = 0;
          const int groups = experts / 32;
          for (int j = 0; j <= std::min(groups, 4); ++j)
            missed += binomial(groups, j) * binomial(8 - groups, 4 - j) / binomial(8, 4) *
                      binomial(128 - 32 * j, 8) / binomial(128, 8);
          return blocks * (1 - missed);
        };
        CHECK(in_rank >= 1);
        const double ranks = distinct(ep), domains = distinct(group.domains);
        const double payload = 7168 * 2;
        const auto check = [&](Dispatcher dispatcher, DispatchPass pass, double beside) {
          const DispatchBytes bytes = dispatch_bytes(dispatcher, pass, shape, group);
          const double vector = payload + beside;
          CHECK(bytes.vectors == doctest::Approx(4096 * ranks));
          CHECK(bytes.nvlink.value == doctest::Approx(4096 * ranks * (near - 1) / near * vector));
          CHECK(bytes.network.value == doctest::Approx(4096 * domains * (far - 1) / far * vector));
          CHECK(bytes.local.value == doctest::Approx(4096 * ranks / near * vector));
        };
        // Eight probabilities and expert numbers; or a probability for every expert of the domain.
        check(Dispatcher::deepep, DispatchPass::dispatch, 8 * 12);
        check(Dispatcher::deepep, DispatchPass::combine, 0);
        check(Dispatcher::deepep, DispatchPass::dispatch_backward, 8 * 4);
        check(Dispatcher::deepep, DispatchPass::combine_backward, 0);
        check(Dispatcher::hybridep, DispatchPass::dispatch, 4 * 256 / far);
        check(Dispatcher::hybridep, DispatchPass::combine, 0);
      }
}

TEST_CASE(
    "no dispatcher moves less than a copy to each distinct other rank, nor faster than links") {
  Cluster cluster = dgx_h100(8);
  int tight = 0;
  for (const DispatcherRow& row : dispatcher_rows)
    for (const DispatchPass pass : passes)
      for (const int ep : {1, 2, 4, 8, 16, 64})
        for (const int etp : {1, 2})
          for (const int per_domain : {1, 2, 8, 128})
            for (const bool limited : {false, true}) {
              CAPTURE(row.name);
              CAPTURE(ep);
              CAPTURE(etp);
              CAPTURE(per_domain);
              DispatchShape shape = deepseek(ep, limited);
              shape.etp = etp;
              const GroupPlacement group = group_of(ep * etp, per_domain);
              const DispatchBytes bytes = dispatch_bytes(row.dispatcher, pass, shape, group);
              const double n = group.size;
              const double least = 4096 * distinct_blocks(shape, ep) * etp * (1 - 1 / n) * 7168 * 2;
              // An all-to-all that ETP gathers afterwards sends to each of EP ranks once.
              CHECK(bytes.wire().value >= least / (1 + 1e-12));
              if (bytes.wire().value <= least * 1.02 && n > 1) ++tight;
              const CollectiveCost cost =
                  dispatch_cost(row.dispatcher, pass, shape, group, cluster);
              if (n == 1) {
                CHECK(cost.duration.value == 0);
                CHECK(cost.wire_bytes.value == 0);
                continue;
              }
              CHECK(cost.duration > cost.latency);
              CHECK(cost.nvlink_rate.value <= cluster.device.nvlink_bandwidth.value);
              CHECK(cost.nic_rate.value <= 40e9 * (1 + 1e-12));
              if (!has_own_kernel(row.dispatcher)) continue;
              const Seconds transfer = cost.duration - cost.latency;
              CHECK((cost.nvlink_rate * transfer).value == doctest::Approx(bytes.nvlink.value));
              CHECK((cost.nic_rate * transfer).value == doctest::Approx(bytes.network.value));
            }
  CHECK(tight > 10);
}

TEST_CASE(
    "seven times narrower experts, seven times as many: seven times the bytes of an all-to-all") {
  // AI-Hypercomputer/maxtext issue 1256: 8 experts, 2 a token; 56 experts, 14 a token.
  const DispatchShape few{.tokens = 1024, .width = 4096, .experts = 8, .top_k = 2, .ep = 8};
  DispatchShape many = few;
  many.experts = 56;
  many.top_k = 14;
  for (const DispatchPass pass : passes)
    for (const int per_domain : {4, 8}) {
      const GroupPlacement group = group_of(8, per_domain);
      const auto wire = [&](const DispatchShape& shape) {
        return dispatch_bytes(Dispatcher::alltoall, pass, shape, group).wire().value;
      };
      CHECK(wire(many) == 7 * wire(few));
    }
}

TEST_CASE("ETP: all-to-all gathers what it received, and sums in the type of the probabilities") {
  DispatchShape shape = deepseek(4, false);
  shape.etp = 2;
  shape.reduce_bytes = 4;
  const GroupPlacement group = group_of(8, 8);
  const double copies = 4096.0 * 8;
  CHECK(dispatch_bytes(Dispatcher::alltoall, DispatchPass::dispatch, shape, group).wire().value ==
        doctest::Approx(copies * (7168 * 2 + 4) * 3 / 4 + copies * (7168 * 2 + 4)));
  CHECK(dispatch_bytes(Dispatcher::alltoall, DispatchPass::combine, shape, group).wire().value ==
        doctest::Approx(copies * 7168 * 2 * 3 / 4 + copies * 7168 * 4));
  // Both ranks of an expert get a copy.
  CHECK(dispatch_bytes(Dispatcher::deepep, DispatchPass::combine, shape, group).vectors ==
        doctest::Approx(2 * 4096 * distinct_blocks(shape, 4)));
}

TEST_CASE("time of a kernel: the slowest of port, NIC and SMs, by hand") {
  Cluster cluster = dgx_h100(2);
  // Port 500 GB/s; half of it is usable. NIC 40 GB/s, all of it. An SM moves 10 GB/s.
  DispatchRates& rates = cluster.device.dispatch[static_cast<size_t>(Dispatcher::deepep)];
  rates = {.nvlink_efficiency = 0.5,
           .network_share = 1,
           .sm_rate = 10.0_GBps,
           .vector = 0.5_us,
           .forward_share = 0.5,
           .combine_share = 0.8,
           .latency = 10.0_us,
           .peer = 1.0_us};
  // Two ranks, one expert each, both chosen: each token goes to both. 1000 vectors of 10 kB each
  // way, 1000 of its own; probabilities left out.
  DispatchShape shape{
      .tokens = 1000, .width = 5000, .probability_bytes = 0, .experts = 2, .top_k = 2, .ep = 2};
  const auto time = [&](DispatchPass pass, const GroupPlacement& group, int sms) {
    return dispatch_cost(Dispatcher::deepep, pass, shape, group, cluster, sms);
  };
  const GroupPlacement near = group_of(2, 8), far = group_of(2, 1);
  // Port: 10 MB at 250 GB/s: 40 us. 2000 vectors of 1.5 us on an SM: 3000 us; less on 75 or more.
  const auto pass = DispatchPass::combine;
  CHECK(us(time(pass, near, 10).duration) == doctest::Approx(11 + 300 / 0.8));
  CHECK(us(time(pass, near, 93).duration) > 11 + 40);
  CHECK(us(time(pass, near, 94).duration) == doctest::Approx(11 + 40));
  CHECK(time(pass, near, 94).sms == 94);
  CHECK(time(pass, near, 0).sms == 20);
  // In a domain of more ranks than `crowd` vectors are added up at a share of that.
  for (const auto& [crowd, share] : {std::pair(2, 1.0), std::pair(1, 0.25), std::pair(0, 1.0)}) {
    rates.crowd = crowd;
    rates.crowded_share = 0.25;
    CHECK(us(time(pass, near, 10).duration) == doctest::Approx(11 + 300 / 0.8 / share));
    CHECK(us(time(DispatchPass::combine_backward, near, 10).duration) == doctest::Approx(11 + 300));
  }
  rates.crowd = 0;
  // NIC: 10 MB at 40 GB/s: 250 us, and 6.5 us of the hop; SMs forward at half their rate.
  CHECK(us(time(pass, far, 100).duration) == doctest::Approx(16.5 + 250));
  CHECK(us(time(pass, far, 10).duration) == doctest::Approx(16.5 + 600 / 0.8));
  CHECK(gbps(time(pass, far, 100).nic_rate) == doctest::Approx(40));
  // Sums read one operand more.
  CHECK(gbps(time(pass, near, 94).hbm_rate) == doctest::Approx(3 * 20e6 / 40e-6 * 1e-9));
}

TEST_CASE("Hybrid-EP: a domain of fewer ranks than share NVLink goes over the network") {
  const Cluster cluster = dgx_h100(1);
  DispatchShape shape = deepseek(8, false);
  const GroupPlacement group = group_of(8, 8);
  const auto whole =
      dispatch_cost(Dispatcher::hybridep, DispatchPass::combine, shape, group, cluster);
  CHECK(whole.nic_rate.value == 0);
  shape.ranks_per_domain = 4;
  const auto halves =
      dispatch_cost(Dispatcher::hybridep, DispatchPass::combine, shape, group, cluster);
  CHECK(halves.nic_rate.value > 0);
  CHECK(halves.duration > whole.duration);
  shape.ranks_per_domain = 8;
  CHECK(
      dispatch_cost(Dispatcher::hybridep, DispatchPass::combine, shape, group, cluster).duration ==
      whole.duration);
}

TEST_CASE("before tokens move: counts of 8 bytes an expert, or the routing map") {
  const Cluster cluster = dgx_h100(1);
  const DispatchShape shape = deepseek(8, false);
  const GroupPlacement group = group_of(8, 8);
  const auto gather = [&](double bytes) {
    return collective_cost(Collective::all_gather, {bytes}, group, cluster).duration;
  };
  CHECK(exchange_cost(Dispatcher::alltoall, shape, group, cluster).duration ==
        gather(8.0 * 256 * 8));
  CHECK(exchange_cost(Dispatcher::hybridep, shape, group, cluster).duration ==
        gather(4096.0 * 256 * 8));
  CHECK(exchange_cost(Dispatcher::allgather, shape, group, cluster).duration.value == 0);
}
