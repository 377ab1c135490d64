#include "sim/network/topology.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <cassert>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>
#include <utility>

#include "sim/base/error.h"

namespace stepsim {
namespace {

/// Length of a path. Whole picoseconds, so that equal latencies tie exactly in whatever order they
/// are added.
struct Length {
  int64_t picoseconds = 0;
  int64_t hops = 0;
  auto operator<=>(const Length&) const = default;
};
// A quarter of the range: the longest path plus one link never wraps.
constexpr Length unreachable{std::numeric_limits<int64_t>::max() / 4,
                             std::numeric_limits<int64_t>::max() / 4};
constexpr double longest_link_picoseconds = 1e15;  // well above any that is read

int64_t picoseconds(Seconds latency) {
  return std::llround(std::clamp(latency.value * 1e12, 0.0, longest_link_picoseconds));
}

struct Vertex {
  std::string name;
};

struct Link {
  BytesPerSecond bandwidth;
  Seconds latency;
  Length length;
};

using Adjacency = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, Vertex, Link>;

/// Lengths along a path add.
struct Join {
  Length operator()(Length a, Length b) const {
    return {std::min(a.picoseconds + b.picoseconds, unreachable.picoseconds), a.hops + b.hops};
  }
};

}  // namespace

struct Topology::Graph {
  Adjacency adjacency;
};

Topology::Topology() : graph_(std::make_unique<Graph>()) {}
Topology::Topology(Topology&&) noexcept = default;
Topology::~Topology() = default;

int Topology::add_vertex(std::string name) {
  return static_cast<int>(boost::add_vertex(Vertex{std::move(name)}, graph_->adjacency));
}

void Topology::add_link(int from, int to, BytesPerSecond bandwidth, Seconds latency) {
  const Link link{bandwidth, latency, {picoseconds(latency), 1}};
  boost::add_edge(static_cast<size_t>(from), static_cast<size_t>(to), link, graph_->adjacency);
}

Route Topology::shortest(int from, int to) const {
  const Adjacency& graph = graph_->adjacency;
  const auto source = static_cast<size_t>(from), destination = static_cast<size_t>(to);
  assert(from != to && source < num_vertices(graph) && destination < num_vertices(graph));
  // Distances to the destination; walking from the source can then choose among equals by vertex
  // order.
  std::vector<Length> distance(num_vertices(graph));
  boost::dijkstra_shortest_paths(graph, destination,
                                 boost::weight_map(get(&Link::length, graph))
                                     .distance_map(boost::make_iterator_property_map(
                                         distance.begin(), get(boost::vertex_index, graph)))
                                     .distance_compare(std::less<Length>{})
                                     .distance_combine(Join{})
                                     .distance_zero(Length{})
                                     .distance_inf(unreachable));
  if (distance[source] >= unreachable)
    throw Error(
        "<topology>", "",
        "no path of links connects " + graph[source].name + " with " + graph[destination].name);

  Route route;
  route.bandwidth = {std::numeric_limits<double>::infinity()};
  route.vertices.push_back(graph[source].name);
  for (size_t at = source; at != destination;) {
    size_t next = num_vertices(graph);
    const Link* taken = nullptr;
    for (auto [edge, end] = out_edges(at, graph); edge != end; ++edge) {
      const Link& link = graph[*edge];
      const size_t neighbour = target(*edge, graph);
      if (Join{}(distance[neighbour], link.length) != distance[at]) continue;
      // Of parallel links between the same two vertices the widest is used.
      const bool wider = neighbour == next && link.bandwidth > taken->bandwidth;
      if (neighbour < next || wider) next = neighbour, taken = &link;
    }
    assert(taken != nullptr);
    route.bandwidth = std::min(route.bandwidth, taken->bandwidth);
    route.latency += taken->latency;
    route.hops += 1;
    route.links.push_back(taken->bandwidth);
    route.vertices.push_back(graph[next].name);
    at = next;
  }
  return route;
}

std::vector<int> Topology::components() const {
  std::vector<int> component(num_vertices(graph_->adjacency));
  if (!component.empty()) boost::connected_components(graph_->adjacency, component.data());
  return component;
}

}  // namespace stepsim
