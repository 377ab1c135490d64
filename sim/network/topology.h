// Vertices and links as a graph (Boost.Graph, behind this header) and the shortest routes in it.
// Law: among routes of least latency the one of fewest links wins, then the one whose next vertex
// was added first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/network/fabric.h"

namespace stepsim {

/// A grown-on-demand undirected graph; vertices are numbered from 0 in the order they are added.
class Topology {
 public:
  Topology();
  Topology(Topology&&) noexcept;
  ~Topology();
  int add_vertex(std::string name);
  void add_link(int from, int to, BytesPerSecond bandwidth, Seconds latency);
  /// `from` and `to` must be distinct. Throws Error when no path of links connects them.
  Route shortest(int from, int to) const;
  /// Component number of each vertex.
  std::vector<int> components() const;

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace stepsim
