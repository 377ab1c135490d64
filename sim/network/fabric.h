// The topology as a graph (Boost.Graph) and the routes in it. Regular systems build only the hosts that are asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/config/cluster.h"

namespace stepsim {

/// A path between two GPUs. Bandwidth is one direction at the narrowest link, oversubscription shared evenly.
struct Route {
  bool inside_domain = false;  ///< NVLink only
  BytesPerSecond bandwidth;    ///< usable by one GPU pair when every GPU sends at once
  Seconds latency;             ///< sum over links and switches
  int hops = 0;                ///< links traversed
  std::vector<std::string> vertices;  ///< names from source to destination
};

/// Holds the topology of one cluster. Queries are const and deterministic.
class Fabric {
 public:
  /// Throws Error when a free-form topology does not connect the GPUs in use.
  explicit Fabric(const Cluster& cluster);
  Fabric(Fabric&&) noexcept;
  ~Fabric();
  /// Shortest route by latency, ties by hops then vertex order.
  Route route(int gpu_a, int gpu_b) const;
  int domain_of(int gpu) const;  ///< NVLink domain index
  int node_of(int gpu) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepsim
