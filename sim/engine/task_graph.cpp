#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cassert>
#include <cmath>
#include <utility>

#include "sim/engine/task_graph_builder.h"

namespace stepsim {
namespace {

/// Finish-to-start edges, by source.
using FinishEdges =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                       boost::no_property, uint32_t, uint32_t>;

/// Start-to-start edges with their lags, by source.
struct StartEdges {
  std::vector<uint32_t> offsets, targets;
  std::vector<double> lags_seconds;
};

/// Counting sort by source, which keeps the order of insertion within a row. Offsets are one place
/// ahead until all edges are placed: each then has moved on to where the next row begins.
template <class Edge>
StartEdges sort_by_source(uint32_t tasks, const std::vector<Edge>& unsorted) {
  StartEdges edges;
  if (unsorted.empty()) return edges;
  edges.offsets.assign(size_t{tasks} + 2, 0);
  edges.targets.resize(unsorted.size());
  edges.lags_seconds.resize(unsorted.size());
  for (const Edge& edge : unsorted) ++edges.offsets[size_t{edge.from} + 2];
  for (size_t t = 1; t <= tasks; ++t) edges.offsets[t + 1] += edges.offsets[t];
  for (const Edge& edge : unsorted) {
    const uint32_t place = edges.offsets[size_t{edge.from} + 1]++;
    edges.targets[place] = edge.to;
    edges.lags_seconds[place] = edge.lag_seconds;
  }
  edges.offsets.pop_back();
  return edges;
}

/// Nearly all are in order: those behind a later task are taken out, sorted and merged in again.
template <class Before>
void sort_nearly_sorted(std::vector<FlowRow>& flows, Before before) {
  std::vector<FlowRow> late;
  size_t kept = 0;
  for (const FlowRow& flow : flows) {
    if (kept > 0 && before(flow, flows[kept - 1]))
      late.push_back(flow);
    else
      flows[kept++] = flow;
  }
  std::sort(late.begin(), late.end(), before);
  for (size_t place = flows.size(); !late.empty(); --place) {
    const bool from_late = kept == 0 || before(flows[kept - 1], late.back());
    flows[place - 1] = from_late ? late.back() : flows[kept - 1];
    if (from_late)
      late.pop_back();
    else
      --kept;
  }
}

template <class T>
void release(std::vector<T>& values) {
  std::vector<T>().swap(values);
}

[[maybe_unused]] bool lasting(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

}  // namespace

/// Owns what the spans of a TaskGraph show.
struct TaskGraph::Storage {
  FinishEdges finish;
  StartEdges start;
  std::vector<double> durations, capacities;
  std::vector<StreamId> streams;
  std::vector<uint64_t> labels;
  std::vector<uint32_t> predecessor_counts;
  std::vector<FlowRow> flows;
  std::vector<ClaimSet> claim_sets;
  std::vector<Claim> claims;
  std::vector<ProcessorClaim> processor_claims;
  std::vector<uint32_t> pool_sizes;
};

TaskGraph::TaskGraph(std::unique_ptr<Storage> storage)
    : durations_seconds(storage->durations),
      streams(storage->streams),
      labels(storage->labels),
      predecessor_counts(storage->predecessor_counts),
      finish_offsets(storage->finish.m_forward.m_rowstart),
      finish_targets(storage->finish.m_forward.m_column),
      start_offsets(storage->start.offsets),
      start_targets(storage->start.targets),
      start_lags_seconds(storage->start.lags_seconds),
      flows(storage->flows),
      claim_sets(storage->claim_sets),
      claims(storage->claims),
      processor_claims(storage->processor_claims),
      capacities(storage->capacities),
      pool_sizes(storage->pool_sizes),
      storage_(std::move(storage)) {}
TaskGraph::TaskGraph(TaskGraph&&) noexcept = default;
TaskGraph& TaskGraph::operator=(TaskGraph&&) noexcept = default;
TaskGraph::~TaskGraph() = default;

void TaskGraphBuilder::reserve(size_t tasks, size_t finish_edges, size_t start_edges) {
  durations_.reserve(tasks);
  streams_.reserve(tasks);
  labels_.reserve(tasks);
  flows_.reserve(tasks);
  edges_.reserve(finish_edges);
  start_edges_.reserve(start_edges);
}

ResourceId TaskGraphBuilder::add_resource(double capacity_units_per_second) {
  assert(std::isfinite(capacity_units_per_second) && capacity_units_per_second > 0);
  capacities_.push_back(capacity_units_per_second);
  return ResourceId{static_cast<uint32_t>(capacities_.size() - 1)};
}

PoolId TaskGraphBuilder::add_pool(uint32_t processors) {
  assert(processors > 0);
  pool_sizes_.push_back(processors);
  return PoolId{static_cast<uint32_t>(pool_sizes_.size() - 1)};
}

ClaimSetId TaskGraphBuilder::add_claims(std::span<const Claim> claims,
                                        std::span<const ProcessorClaim> processors) {
  ClaimSet set{.first_claim = static_cast<uint32_t>(claims_.size()),
               .first_processor = static_cast<uint32_t>(processor_claims_.size())};
  for (const Claim& claim : claims) {
    assert(index(claim.resource) < capacities_.size());
    assert(std::isfinite(claim.rate) && claim.rate >= 0 && claim.multiplicity > 0);
    assert(std::none_of(claims_.begin() + set.first_claim, claims_.end(),
                        [&](const Claim& other) { return other.resource == claim.resource; }));
    claims_.push_back(claim);
  }
  for (const ProcessorClaim& claim : processors) {
    assert(index(claim.pool) < pool_sizes_.size() && claim.count > 0);
    processor_claims_.push_back(claim);
  }
  set.last_claim = static_cast<uint32_t>(claims_.size());
  set.last_processor = static_cast<uint32_t>(processor_claims_.size());
  claim_sets_.push_back(set);
  return ClaimSetId{static_cast<uint32_t>(claim_sets_.size() - 1)};
}

void TaskGraphBuilder::set_claims(TaskId task, double latency_seconds, ClaimSetId set) {
  assert(index(task) < task_count() && index(set) < claim_sets_.size());
  assert(latency_seconds >= 0 && latency_seconds <= durations_[index(task)]);
  flows_.push_back({.task = task, .set = set, .latency_seconds = latency_seconds});
}

TaskGraph TaskGraphBuilder::build() && {
  const uint32_t tasks = task_count();
  assert(std::all_of(durations_.begin(), durations_.end(), lasting));
  assert(std::all_of(edges_.begin(), edges_.end(),
                     [&](const auto& e) { return e.first < tasks && e.second < tasks; }));
  assert(std::all_of(start_edges_.begin(), start_edges_.end(), [&](const StartEdge& e) {
    return e.from < tasks && e.to < tasks && lasting(e.lag_seconds);
  }));

  auto storage = std::make_unique<TaskGraph::Storage>();
  // A counting sort in two passes; Boost's in-place sort of the same list takes fifty times as
  // long.
  storage->finish =
      FinishEdges(boost::edges_are_unsorted_multi_pass, edges_.begin(), edges_.end(), tasks);
  release(edges_);
  storage->start = sort_by_source(tasks, start_edges_);
  release(start_edges_);

  storage->predecessor_counts.assign(tasks, 0);
  for (uint32_t target : storage->finish.m_forward.m_column) ++storage->predecessor_counts[target];
  for (uint32_t target : storage->start.targets) ++storage->predecessor_counts[target];

  const auto by_task = [](const FlowRow& a, const FlowRow& b) {
    return index(a.task) < index(b.task);
  };
  sort_nearly_sorted(flows_, by_task);
  assert(std::adjacent_find(flows_.begin(), flows_.end(), [](const FlowRow& a, const FlowRow& b) {
           return a.task == b.task;
         }) == flows_.end());

  storage->durations = std::move(durations_);
  storage->streams = std::move(streams_);
  storage->labels = std::move(labels_);
  storage->capacities = std::move(capacities_);
  storage->flows = std::move(flows_);
  storage->claim_sets = std::move(claim_sets_);
  storage->claims = std::move(claims_);
  storage->processor_claims = std::move(processor_claims_);
  storage->pool_sizes = std::move(pool_sizes_);
  return TaskGraph(std::move(storage));
}

}  // namespace stepsim
