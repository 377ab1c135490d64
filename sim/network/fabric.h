// The topology as a graph (Boost.Graph) and the routes in it. Regular systems build only the hosts
// that are asked for.
//
//   gpu -- nvswitch                       inside an NVLink domain, nothing else competes
//   gpu -- nic -- leaf -- spine -- core   between domains; a tier of oversubscription o divides
//   what leaves it upward by o
// Rail-optimised: one leaf a rail and unit; across rails the route goes over a spine, or over
// NVLink to the other rail's NIC, whichever is nearer. Leaves without a spine are one a rail all
// the same: then rails meet over NVLink, or in the host of a node that holds several NVLink
// domains. The last tier spans the system. A free-form graph has its own links, and NVLink inside
// domains.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/cluster.h"

namespace stepsim {

/// A path between two GPUs. Bandwidth is one direction at the narrowest link, oversubscription
/// shared evenly.
struct Route {
  bool inside_domain = false;         ///< NVLink only
  BytesPerSecond bandwidth;           ///< usable by one GPU pair when every GPU sends at once
  Seconds latency;                    ///< sum over links and switches
  int hops = 0;                       ///< links traversed
  std::vector<BytesPerSecond> links;  ///< bandwidth of each
  std::vector<std::string> vertices;  ///< names from source to destination
};

/// Holds the topology of one cluster. Queries are by rank, const and deterministic; a rank sits on
/// the GPU of its own number unless cluster.hosts says otherwise. One thread at a time: it
/// remembers.
class Fabric {
 public:
  /// Throws Error when a free-form topology does not connect the GPUs in use.
  explicit Fabric(const Cluster& cluster);
  Fabric(Fabric&&) noexcept;
  ~Fabric();
  /// Shortest route by latency, ties by hops then vertex order.
  Route route(int rank_a, int rank_b) const;
  /// Bandwidth and latency of that route, worked out once for every route class.
  std::pair<BytesPerSecond, Seconds> figures(int rank_a, int rank_b) const;
  int gpu_of(int rank) const;
  int domain_of(int rank) const;  ///< NVLink domain index
  int node_of(int rank) const;
  /// Pairs of one class have routes of equal bandwidth, latency and hops, so one route stands for
  /// all of them. -1: a free-form topology, where every pair is its own.
  int route_class(int rank_a, int rank_b) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepsim
