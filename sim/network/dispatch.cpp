#include "sim/network/dispatch.h"

#include <algorithm>
#include <cassert>
#include <vector>

namespace stepsim {
namespace {

/// C(n - o, k) / C(n, k): none of k out of n lies in o of them.
double missing(int n, int o, int k) {
  double p = 1;
  for (int i = 0; i < k; ++i) p *= std::max(0.0, static_cast<double>(n - o - i) / (n - i));
  return p;
}

bool adds_up(DispatchPass pass) {
  return pass == DispatchPass::combine || pass == DispatchPass::dispatch_backward;
}

/// Probabilities go with the tokens, and their gradients come back.
bool carries_probabilities(DispatchPass pass) {
  return pass == DispatchPass::dispatch || pass == DispatchPass::dispatch_backward;
}

/// Sums over ranks, and the gathers that are their gradients.
double reduction_bytes(DispatchPass pass, const DispatchShape& shape) {
  const bool reduced = pass == DispatchPass::combine || pass == DispatchPass::combine_backward;
  return reduced && shape.reduce_bytes > 0 ? shape.reduce_bytes : shape.element_bytes;
}

/// The members of `group` that are `stride` apart, `size` of them.
GroupPlacement part_of(GroupPlacement group, int size, int stride) {
  const int near = std::max(1, group.per_domain / stride);
  group.per_domain = std::min(size, near);
  group.size = size;
  group.domains = (size + group.per_domain - 1) / group.per_domain;
  return group;
}

/// The group as the dispatcher's domains cut it.
GroupPlacement cut(GroupPlacement group, Dispatcher dispatcher, const DispatchShape& shape) {
  if (dispatcher != Dispatcher::hybridep || shape.ranks_per_domain <= 0) return group;
  group.per_domain = std::min(group.per_domain, shape.ranks_per_domain);
  group.domains = (group.size + group.per_domain - 1) / group.per_domain;
  return group;
}

/// One after the other.
CollectiveCost then(const CollectiveCost& first, const CollectiveCost& second) {
  if (first.duration <= Seconds{}) return second;
  if (second.duration <= Seconds{}) return first;
  const Seconds a = first.duration - first.latency, b = second.duration - second.latency;
  CollectiveCost both = first;
  both.latency += second.latency;
  both.duration += second.duration;
  both.wire_bytes += second.wire_bytes;
  both.channels = std::max(first.channels, second.channels);
  both.sms = std::max(first.sms, second.sms);
  if (a + b <= Seconds{}) return both;
  const auto mean = [&](BytesPerSecond of_first, BytesPerSecond of_second) {
    return (of_first * a + of_second * b) / (a + b);
  };
  both.nvlink_rate = mean(first.nvlink_rate, second.nvlink_rate);
  both.nic_rate = mean(first.nic_rate, second.nic_rate);
  both.hbm_rate = mean(first.hbm_rate, second.hbm_rate);
  return both;
}

/// NCCL's collectives of a pass, in order.
struct Step {
  Collective op;
  Bytes bytes;
  GroupPlacement group;
};

std::vector<Step> steps_of(Dispatcher dispatcher, DispatchPass pass, const DispatchShape& shape,
                           const GroupPlacement& group) {
  const double ranks = group.size;
  const Collective gather = adds_up(pass) ? Collective::reduce_scatter : Collective::all_gather;
  const double vector = shape.tokens * shape.width;
  std::vector<Step> steps;
  const auto add = [&](Collective op, double bytes, const GroupPlacement& over) {
    if (over.size > 1 && bytes > 0) steps.push_back({op, {bytes}, over});
  };
  if (dispatcher == Dispatcher::allgather) {
    // The routing map of one byte an expert goes with the probabilities, but has no gradient.
    const double map = pass == DispatchPass::dispatch ? 1 : 0;
    if (carries_probabilities(pass))
      add(gather, ranks * shape.tokens * shape.experts * (shape.probability_bytes + map), group);
    add(gather, ranks * vector * reduction_bytes(pass, shape), group);
    return steps;
  }
  const GroupPlacement over_ep = part_of(group, shape.ep, shape.etp),
                       over_etp = part_of(group, shape.etp, 1);
  const double copies = shape.tokens * shape.top_k;
  add(Collective::all_to_all, copies * shape.width * shape.element_bytes, over_ep);
  if (carries_probabilities(pass))
    add(Collective::all_to_all, copies * shape.probability_bytes, over_ep);
  add(gather, shape.etp * copies * shape.width * reduction_bytes(pass, shape), over_etp);
  if (carries_probabilities(pass))
    add(gather, shape.etp * copies * shape.probability_bytes, over_etp);
  if (adds_up(pass)) std::reverse(steps.begin(), steps.end());
  return steps;
}

/// What goes with one vector: DeepEP sends k 8-byte expert numbers beside the probabilities,
/// Hybrid-EP a probability for every expert of the destination's domain (csrc/hybrid_ep/buffer).
double beside_vector(Dispatcher dispatcher, DispatchPass pass, const DispatchShape& shape,
                     const GroupPlacement& group) {
  if (!carries_probabilities(pass)) return 0;
  if (dispatcher == Dispatcher::hybridep)
    return shape.probability_bytes * shape.experts / group.domains;
  constexpr double expert_number = 8;
  return shape.top_k * (shape.probability_bytes + (adds_up(pass) ? 0 : expert_number));
}

Bytes vector_bytes(Dispatcher dispatcher, DispatchPass pass, const DispatchShape& shape,
                   const GroupPlacement& group) {
  return {shape.width * shape.element_bytes + beside_vector(dispatcher, pass, shape, group)};
}

/// Domains that a token visits: blocks of experts, or more of them where the ranks that share an
/// expert (ETP) span several.
double distinct_domains(const DispatchShape& shape, const GroupPlacement& group) {
  if (shape.etp <= group.per_domain) return distinct_blocks(shape, group.domains);
  return distinct_blocks(shape, shape.ep) * shape.etp / group.per_domain;
}

DispatchBytes bytes_of_steps(const std::vector<Step>& steps) {
  DispatchBytes all;
  for (const Step& step : steps) {
    const double n = step.group.size, k = step.group.per_domain;
    all.nvlink += (k - 1) / n * step.bytes;
    all.network += (n - k) / n * step.bytes;
    all.local += 1 / n * step.bytes;
  }
  return all;
}

CollectiveCost kernel_cost(Dispatcher dispatcher, DispatchPass pass, const DispatchShape& shape,
                           const GroupPlacement& group, const Cluster& cluster, int sms) {
  const Device& device = cluster.device;
  const DispatchRates& rates = device.dispatch[static_cast<size_t>(dispatcher)];
  const DispatchBytes bytes = dispatch_bytes(dispatcher, pass, shape, group);
  const GroupPlacement domains = cut(group, dispatcher, shape);
  const bool network = domains.domains > 1;
  // A group inside one NVLink domain that is cut nevertheless has no route of its own.
  const bool cut_only = network && group.domains == 1;
  const double nics = static_cast<double>(cluster.nics_per_node) / cluster.gpus_per_node;
  const BytesPerSecond nic =
      cut_only ? cluster.nic_bandwidth * cluster.nic_efficiency * std::min(1.0, nics)
               : group.network_bandwidth;

  CollectiveCost cost;
  cost.algorithm = row_of(dispatcher).name;
  cost.sms = sms > 0 ? sms : row_of(dispatcher).sms;
  cost.latency = rates.latency + rates.peer * (domains.per_domain - 1);
  if (network) cost.latency += cut_only ? cluster.nic_latency : group.network_latency;
  Seconds transfer =
      bytes.nvlink / (device.nvlink_bandwidth * (rates.nvlink_efficiency * group.nvlink_factor));
  if (network) transfer = std::max(transfer, bytes.network / (nic * rates.network_share));
  if (rates.sm_rate > BytesPerSecond{}) {
    const bool crowded = rates.crowd > 0 && domains.per_domain > rates.crowd;
    const double adding = rates.combine_share * (crowded ? rates.crowded_share : 1);
    const double share =
        (network ? rates.forward_share : 1) * (adds_up(pass) ? adding : 1) * cost.sms;
    const Bytes vector = vector_bytes(dispatcher, pass, shape, domains);
    transfer =
        std::max(transfer, (rates.vector + vector / rates.sm_rate) * (bytes.vectors / share));
  }
  cost.duration = cost.latency + transfer;
  cost.wire_bytes = bytes.wire();
  if (transfer <= Seconds{}) return cost;
  cost.nvlink_rate = bytes.nvlink / transfer;
  cost.nic_rate = bytes.network / transfer;
  constexpr double copied = 2, added = 3;
  cost.hbm_rate = (bytes.wire() + bytes.local) * (adds_up(pass) ? added : copied) / transfer;
  return cost;
}

}  // namespace

// Over the groups that a block of experts overlaps: how likely j of them are chosen, and what those
// hold of the block. The other chosen groups lie outside.
double distinct_blocks(const DispatchShape& shape, int blocks) {
  const bool limited = shape.groups > 1 && shape.groups_top_k > 0;
  const int groups = limited ? shape.groups : 1;
  const int chosen = limited ? std::min(shape.groups_top_k, groups) : 1;
  const int experts = shape.experts, in_group = experts / groups;
  const int pool = chosen * in_group, k = std::min(shape.top_k, pool);
  double distinct = 0;
  for (int block = 0; block < blocks; ++block) {
    const int64_t first = int64_t{experts} * block / blocks,
                  last = int64_t{experts} * (block + 1) / blocks;
    struct State {
      int overlap;
      double probability;
    };
    std::vector<std::vector<State>> states(static_cast<size_t>(chosen) + 1);  // by j
    states[0].push_back({0, 1});
    int seen = 0;
    for (int g = 0; g < groups; ++g) {
      const auto overlap = static_cast<int>(
          std::max<int64_t>(0, std::min<int64_t>(last, int64_t{in_group} * (g + 1)) -
                                   std::max<int64_t>(first, int64_t{in_group} * g)));
      if (overlap == 0) continue;
      std::vector<std::vector<State>> next(states.size());
      const auto add = [&](size_t j, int covered, double probability) {
        if (probability <= 0) return;
        for (State& state : next[j])
          if (state.overlap == covered) {
            state.probability += probability;
            return;
          }
        next[j].push_back({covered, probability});
      };
      for (size_t j = 0; j < states.size(); ++j)
        for (const State& state : states[j]) {
          const double taken = static_cast<double>(chosen - static_cast<int>(j)) / (groups - seen);
          add(j, state.overlap, state.probability * (1 - taken));
          if (j + 1 < states.size()) add(j + 1, state.overlap + overlap, state.probability * taken);
        }
      states = std::move(next);
      ++seen;
    }
    double missed = 0;
    for (const std::vector<State>& of_count : states)
      for (const State& state : of_count)
        missed += state.probability * missing(pool, state.overlap, k);
    distinct += 1 - missed;
  }
  return distinct;
}

DispatchBytes dispatch_bytes(Dispatcher dispatcher, DispatchPass pass, const DispatchShape& shape,
                             const GroupPlacement& group) {
  assert(group.size == shape.ep * shape.etp);
  if (!has_own_kernel(dispatcher)) {
    DispatchBytes all = bytes_of_steps(steps_of(dispatcher, pass, shape, group));
    all.vectors = dispatcher == Dispatcher::allgather ? shape.tokens * group.size
                                                      : shape.tokens * shape.top_k * shape.etp;
    return all;
  }
  const GroupPlacement domains = cut(group, dispatcher, shape);
  const double n = domains.size, k = domains.per_domain;
  const double vector = vector_bytes(dispatcher, pass, shape, domains).value;
  DispatchBytes all;
  if (dispatcher == Dispatcher::deepep_low_latency) {
    all.vectors = shape.tokens * shape.top_k * shape.etp;
    all.nvlink = {all.vectors * (k - 1) / n * vector};
    all.network = {all.vectors * (n - k) / n * vector};
    all.local = {all.vectors / n * vector};
    return all;
  }
  // Whoever receives a vector over the network is one of k that may be its destination.
  all.vectors = shape.tokens * shape.etp * distinct_blocks(shape, shape.ep);
  all.nvlink = {all.vectors * (k - 1) / k * vector};
  all.local = {all.vectors / k * vector};
  if (domains.domains > 1)
    all.network = {shape.tokens * distinct_domains(shape, domains) * (n - k) / n * vector};
  return all;
}

CollectiveCost dispatch_cost(Dispatcher dispatcher, DispatchPass pass, const DispatchShape& shape,
                             const GroupPlacement& group, const Cluster& cluster, int sms) {
  assert(group.size == shape.ep * shape.etp);
  CollectiveCost cost;
  cost.algorithm = "none";
  if (group.size <= 1 || shape.tokens <= 0) return cost;
  if (has_own_kernel(dispatcher)) return kernel_cost(dispatcher, pass, shape, group, cluster, sms);
  for (const Step& step : steps_of(dispatcher, pass, shape, group))
    cost = then(cost, collective_cost(step.op, step.bytes, step.group, cluster));
  return cost;
}

CollectiveCost exchange_cost(Dispatcher dispatcher, const DispatchShape& shape,
                             const GroupPlacement& group, const Cluster& cluster) {
  CollectiveCost none;
  none.algorithm = "none";
  if (dispatcher == Dispatcher::allgather || group.size <= 1 || shape.tokens <= 0) return none;
  constexpr double count = 8;  // int64
  const double one = dispatcher == Dispatcher::hybridep ? shape.tokens : count;
  return collective_cost(Collective::all_gather, {one * shape.experts * group.size}, group,
                         cluster);
}

}  // namespace stepsim
