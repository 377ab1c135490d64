#include "sim/engine/processors.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace stepsim {
namespace {

using Role = ProcessorClaim::Role;

uint64_t waves(uint64_t blocks, uint64_t processors) {
  return (blocks + processors - 1) / processors;
}

/// T(n) of processors.h, in units in which a full-rate pass over one block is 1.
double wave_time(const ProcessorClaim& runner, uint32_t processors) {
  const double saturating = runner.saturating > 0 ? runner.saturating : runner.count;
  const auto wave = [&](uint32_t blocks) {
    return blocks == 0 ? 0 : blocks / std::min(1.0, blocks / saturating);
  };
  return runner.blocks / processors * wave(processors) + wave(runner.blocks % processors);
}

}  // namespace

std::vector<uint8_t> contended_pools(const TaskGraph& graph) {
  /// The queues that hold of a pool, and that run on it: one, or more than one.
  struct Users {
    uint64_t holder = no_queue, runner = no_queue;
    bool holders = false, runners = false;  ///< more than one
  };
  std::vector<Users> users(graph.pool_sizes.size());
  if (users.empty()) return {};
  std::vector<uint64_t> seen(graph.claim_sets.size(), no_queue);  // same set and queue, same claims
  for (const FlowRow& flow : graph.flows) {
    const uint64_t queue = graph.queue_of(flow.task);
    if (std::exchange(seen[index(flow.set)], queue) == queue) continue;
    for (const ProcessorClaim& claim : graph.processor_claims_of(flow)) {
      Users& user = users[index(claim.pool)];
      const bool runs = claim.role == Role::run;
      uint64_t& one = runs ? user.runner : user.holder;
      bool& several = runs ? user.runners : user.holders;
      if (one == no_queue) one = queue;
      several =
          several || one != queue || claim.role == Role::take;  // kept beyond its queue's turn
    }
  }
  std::vector<uint8_t> contended;
  for (const Users& user : users) {
    const bool both = user.holder != no_queue && user.runner != no_queue;
    contended.push_back(both && (user.holders || user.runners || user.holder != user.runner));
  }
  return contended;
}

double runner_speed(const ProcessorClaim& runner, uint32_t free) {
  if (free >= runner.count) return 1;
  if (runner.blocks == 0) return static_cast<double>(free) / runner.count;
  return wave_time(runner, runner.count) / wave_time(runner, free);
}

double wave_end_seconds(const ProcessorClaim& runner, double done, double total) {
  if (runner.blocks == 0 || total <= 0) return 0;
  const auto count =
      runner.persistent ? 1.0 : static_cast<double>(waves(runner.blocks, runner.count));
  const double position = done / total * count, wave = std::max(1.0, std::ceil(position - 1e-9));
  return wave - position <= 1e-9 ? 0 : wave / count * total;
}

ProcessorPools::ProcessorPools(const TaskGraph& graph, std::vector<uint8_t> contended)
    : contended_(std::move(contended)), pools_(graph.pool_sizes.size()) {
  for (size_t p = 0; p < pools_.size(); ++p) pools_[p].size = graph.pool_sizes[p];
}

uint32_t ProcessorPools::free(PoolId pool) const {
  const Pool& p = pools_[index(pool)];
  return p.held < p.size ? p.size - p.held : 1;
}

void ProcessorPools::touch(PoolId pool) {
  bool& changed = pools_[index(pool)].changed;
  if (!changed) changed_.push_back(pool);
  changed = true;
}

void ProcessorPools::take(PoolId pool, uint32_t count) {
  pools_[index(pool)].held += count;
  touch(pool);
}

void ProcessorPools::give(PoolId pool, uint32_t count) {
  assert(pools_[index(pool)].held >= count);
  pools_[index(pool)].held -= count;
  touch(pool);
}

void ProcessorPools::join(uint32_t slot, double now_seconds, const ProcessorClaim& claim) {
  pools_[index(claim.pool)].runners.push_back({slot, now_seconds, claim});
  touch(claim.pool);
}

ProcessorPools::Runner* ProcessorPools::runner(uint32_t slot, PoolId pool) {
  std::vector<Runner>& runners = pools_[index(pool)].runners;
  const auto place =
      std::find_if(runners.begin(), runners.end(), [&](const Runner& r) { return r.slot == slot; });
  return place == runners.end() ? nullptr : &*place;
}

std::vector<uint32_t> ProcessorPools::leave(uint32_t slot, PoolId pool) {
  Runner* const gone = runner(slot, pool);
  assert(gone != nullptr);
  std::vector<uint32_t> waiting = std::move(gone->waiting);
  std::vector<Runner>& runners = pools_[index(pool)].runners;
  runners.erase(runners.begin() + (gone - runners.data()));
  return waiting;
}

}  // namespace stepsim
