#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/transform_iterator.hpp>
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

/// A counting sort in two passes; Boost's in-place sort of the same lists takes fifty times as
/// long.
FinishEdges finish_edges(uint32_t tasks, const std::vector<uint32_t>& sources,
                         const std::vector<uint32_t>& targets) {
  const auto edge = [&](size_t e) { return std::pair(sources[e], targets[e]); };
  const auto edges_from = [&](size_t e) {
    return boost::make_transform_iterator(boost::make_counting_iterator(e), edge);
  };
  return FinishEdges(boost::edges_are_unsorted_multi_pass, edges_from(0),
                     edges_from(sources.size()), tasks);
}

/// Start-to-start edges with their lags, by source.
struct StartEdges {
  std::vector<uint32_t> offsets, targets;
  std::vector<double> lags_seconds;
};

/// Counting sort by source, which keeps the order of insertion within a row.
StartEdges sort_by_source(uint32_t tasks, const std::vector<uint32_t>& sources,
                          const std::vector<uint32_t>& targets, const std::vector<double>& lags) {
  StartEdges edges;
  if (sources.empty()) return edges;
  edges.offsets.assign(size_t{tasks} + 1, 0);
  edges.targets.resize(sources.size());
  edges.lags_seconds.resize(sources.size());
  for (uint32_t source : sources) ++edges.offsets[source + 1];
  for (size_t t = 0; t < tasks; ++t) edges.offsets[t + 1] += edges.offsets[t];
  std::vector<uint32_t> next(edges.offsets.begin(), edges.offsets.end() - 1);
  for (size_t e = 0; e < sources.size(); ++e) {
    const uint32_t place = next[sources[e]]++;
    edges.targets[place] = targets[e];
    edges.lags_seconds[place] = lags[e];
  }
  return edges;
}

/// Each task has one row at most: a place for every task, in one pass and out in another.
void sort_by_task(uint32_t tasks, std::vector<FlowRow>& flows) {
  constexpr uint32_t none = UINT32_MAX;
  std::vector<uint32_t> row_of(tasks, none);
  for (uint32_t f = 0; f < flows.size(); ++f) row_of[index(flows[f].task)] = f;
  std::vector<FlowRow> sorted;
  sorted.reserve(flows.size());
  for (uint32_t f : row_of)
    if (f != none) sorted.push_back(flows[f]);
  flows = std::move(sorted);
}

template <class T>
void release(std::vector<T>& values) {
  std::vector<T>().swap(values);
}

[[maybe_unused]] bool all_below(const std::vector<uint32_t>& ids, size_t count) {
  return std::all_of(ids.begin(), ids.end(), [&](uint32_t id) { return id < count; });
}

[[maybe_unused]] bool all_lasting(const std::vector<double>& seconds) {
  return std::all_of(seconds.begin(), seconds.end(),
                     [](double s) { return std::isfinite(s) && s >= 0; });
}

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
  sources_.reserve(finish_edges);
  targets_.reserve(finish_edges);
  start_sources_.reserve(start_edges);
  start_targets_.reserve(start_edges);
  start_lags_.reserve(start_edges);
}

void TaskGraphBuilder::add_start_edge(TaskId from, TaskId to, double lag_seconds) {
  start_sources_.push_back(index(from));
  start_targets_.push_back(index(to));
  start_lags_.push_back(lag_seconds);
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
  assert(all_lasting(durations_) && all_lasting(start_lags_));
  assert(all_below(sources_, tasks) && all_below(targets_, tasks));
  assert(all_below(start_sources_, tasks) && all_below(start_targets_, tasks));

  auto storage = std::make_unique<TaskGraph::Storage>();
  storage->finish = finish_edges(tasks, sources_, targets_);
  release(sources_);
  release(targets_);
  storage->start = sort_by_source(tasks, start_sources_, start_targets_, start_lags_);
  release(start_sources_);
  release(start_targets_);
  release(start_lags_);

  storage->predecessor_counts.assign(tasks, 0);
  for (uint32_t target : storage->finish.m_forward.m_column) ++storage->predecessor_counts[target];
  for (uint32_t target : storage->start.targets) ++storage->predecessor_counts[target];

  const auto by_task = [](const FlowRow& a, const FlowRow& b) {
    return index(a.task) < index(b.task);
  };
  if (!std::is_sorted(flows_.begin(), flows_.end(), by_task)) sort_by_task(tasks, flows_);
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
