// Double binary tree over domains, a chain inside each (Sanders, Speck, Traeff 2009; NCCL
// src/graph/trees.cc): all-reduce in a logarithmic number of network hops, at a lower bandwidth
// than the ring.
#include <algorithm>
#include <bit>

#include "sim/network/nccl.h"

namespace stepsim {
namespace {

// Measured over the ring's bus bandwidth (Together AI nccl-tests, B200 with NDR: 556 of 698 GB/s on
// one node, 339 of 388 on 2, 190-196 of 389 on 4 to 64).
double tree_part(int domains) { return domains == 1 ? 0.8 : domains == 2 ? 0.87 : 0.5; }

}  // namespace

// Tree 0 is a binary heap of the domains; tree 1 its mirror image, so that nobody is inside both.
int tree_parent(int tree, int domain, int domains) {
  const int heap = tree == 0 ? domain : domains - 1 - domain;
  if (heap == 0) return -1;
  const int above = (heap - 1) / 2;
  return tree == 0 ? above : domains - 1 - above;
}

int tree_depth(int tree, int domain, int domains) {
  int levels = 0;
  for (int d = tree_parent(tree, domain, domains); d >= 0; d = tree_parent(tree, d, domains))
    ++levels;
  return levels;
}

// In one domain the tree is a chain up and down, and NCCL's model never picks it there.
bool tree_serves(Collective op, const GroupPlacement&, const Cluster&) {
  return op == Collective::all_reduce;
}

CollectiveCost tree_cost(Collective op, Bytes bytes, const GroupPlacement& group,
                         const Cluster& cluster, Protocol protocol) {
  const double k = group.per_domain;
  const double levels = std::bit_width(static_cast<unsigned>(group.domains)) - 1;
  CollectiveCost cost;
  cost.latency = (start_up(cluster) +
                  2 * ((k - 1) * cluster.device.nvlink_latency + levels * group.network_latency)) *
                 latency_factor(protocol);
  const Seconds transfer =
      ring_transfer(2, bytes, group, cluster, protocol) / tree_part(group.domains);
  cost.duration = cost.latency + transfer;
  // Each of the 2k channels carries 1/(2k) of the bytes. A domain's member on the network side
  // sends four such parts (up and to two children where it is inside, up where it is a leaf), two
  // of them when there are only two domains.
  const double parts = group.domains == 1 ? 0 : group.domains == 2 ? 1 : 2;
  const Bytes network = parts / k * bytes;
  const Bytes nvlink = 2 * (k - 1) / k * bytes;
  cost.wire_bytes = network + nvlink;
  if (transfer > Seconds{}) {
    cost.nvlink_rate = nvlink / transfer;
    cost.nic_rate = network / transfer;
  }
  const int channels = allowed_channels(ring_channels(group, cluster), cluster);
  occupy(cost, protocol, busy_channels(bytes, channels, protocol, 1), operands(op));
  return cost;
}

Plan tree_plan(Collective, const GroupPlacement& group) {
  const int k = group.per_domain, domains = group.domains;
  Plan plan;
  plan.channels = 2 * k;
  for (int channel = 0; channel < plan.channels; ++channel) {
    const int tree = channel % 2, rail = channel / 2;
    const auto member = [&](int domain, int position) {
      return domain * k + (rail + position) % k;
    };
    int deepest = 0;
    for (int d = 0; d < domains; ++d) deepest = std::max(deepest, tree_depth(tree, d, domains));
    const int last = 2 * (k - 1 + deepest) - 1;
    // Up: along the chain to the member on the network side, then towards the root. Down: the same
    // moves, mirrored in time.
    const auto exchange = [&](int step, int child, int above) {
      plan.moves.push_back({step, child, above, channel, 0, true});
      plan.moves.push_back({last - step, above, child, channel, 0, false});
    };
    for (int d = 0; d < domains; ++d) {
      for (int p = k - 1; p > 0; --p) exchange(k - 1 - p, member(d, p), member(d, p - 1));
      const int above = tree_parent(tree, d, domains);
      if (above >= 0)
        exchange(k - 1 + deepest - tree_depth(tree, d, domains), member(d, 0), member(above, 0));
    }
  }
  std::stable_sort(plan.moves.begin(), plan.moves.end(),
                   [](const Move& a, const Move& b) { return a.step < b.step; });
  return plan;
}

}  // namespace stepsim
